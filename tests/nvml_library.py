"""A library that answers like the module pynvml, for what no stub driver can show."""

from dataclasses import dataclass, field


class NvmlError(Exception):
    """Stands in for pynvml.NVMLError, whose `value` is NVML's own code."""

    def __init__(self, value=3):
        super().__init__(f"code {value}")
        self.value = value


@dataclass
class Library:
    """Has the queries that have an answer, for some arguments or for all; an error is raised."""

    answers: dict[str, object]
    init: Exception | None = None
    end: Exception | None = None
    calls: list[str] = field(default_factory=list)
    NVMLError = NvmlError

    def __getattr__(self, query):
        name = query.removeprefix("nvml")
        known = {"Init", "Shutdown", *(key.partition(" ")[0] for key in self.answers)}
        if name == query or name not in known:
            raise AttributeError(query)
        return lambda *given: self._answer(name, *given)

    def _answer(self, query, *given):
        self.calls.append(query)
        own = {"Init": self.init, "Shutdown": self.end} | self.answers
        found = own.get(" ".join([query, *map(str, given)]), own.get(query, NvmlError(6)))
        if isinstance(found, Exception):
            raise found
        return found
