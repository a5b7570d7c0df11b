"""Why a framework in the user's interpreter does not use the GPU: causes GM5.."""
