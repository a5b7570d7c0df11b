"""How anything is measured: samples, blocks, when to stop, proof of results; no benchmark."""
