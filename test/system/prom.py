"""A strict reader of Prometheus' text format 0.0.4: whatever is odd about a page is an error."""
import math
import re

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
NUMBER = re.compile(r"-?\d+(\.\d+)?")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "counter": ("",), "gauge": ("",)}


class Page:
    """What a page says: `types` and `helps` by family, `samples` by (name, labels)."""

    def __init__(self, text):
        self.types = {}
        self.helps = {}
        self.samples = {}
        self.family = None
        assert text.endswith("\n")
        for line in text[:-1].split("\n"):
            if line.startswith("# "):
                self.take_head(line)
            else:
                self.take_sample(line)
        assert set(self.types) == set(self.helps)
        for name, kind in self.types.items():
            if kind == "histogram":
                self.check_histogram(name)

    def take_head(self, line):
        word, name, rest = line[2:].split(" ", 2)
        assert NAME.fullmatch(name) and rest == rest.strip(), line
        if word == "HELP":
            assert name not in self.helps and rest, line
            self.helps[name] = rest
        else:
            assert word == "TYPE" and name not in self.types and rest in SUFFIXES, line
            assert name in self.helps, f"{name}: TYPE before HELP"
            assert (rest == "counter") == name.endswith("_total"), line
            self.types[name] = rest
            self.family = name

    def take_sample(self, line):
        name = NAME.match(line)[0]
        rest = line[len(name):]
        labels = []
        assert name in {self.family + s for s in SUFFIXES[self.types[self.family]]}, (
            f"{line} stands behind {self.family}")
        if rest.startswith("{"):
            rest = rest[1:]
            while True:
                found = LABEL.match(rest)
                assert found, line
                value = re.sub(r'\\["\\n]', lambda m: ESCAPES[m[0]], found[2])
                labels.append((found[1], value))
                rest = rest[found.end():]
                if rest.startswith("}"):
                    rest = rest[1:]
                    break
                assert rest.startswith(","), line
                rest = rest[1:]
        assert rest.startswith(" ") and NUMBER.fullmatch(rest[1:]), line
        assert len({label for label, _ in labels}) == len(labels), line
        key = (name, tuple(sorted(labels)))
        assert key not in self.samples, f"{line} is there twice"
        self.samples[key] = float(rest[1:])

    def check_histogram(self, name):
        groups = {}
        for (sample, labels), value in self.samples.items():
            if sample == name + "_bucket":
                others = tuple(pair for pair in labels if pair[0] != "le")
                groups.setdefault(others, []).append((dict(labels)["le"], value))
        counts = {labels for sample, labels in self.samples if sample == name + "_count"}
        assert counts == set(groups), name
        for labels, buckets in groups.items():
            bounds = [math.inf if le == "+Inf" else float(le) for le, _ in buckets]
            values = [value for _, value in buckets]
            assert bounds == sorted(set(bounds)) and bounds[-1] == math.inf, name
            assert values == sorted(values), f"{name}{labels} is not added up"
            assert values[-1] == self.samples[name + "_count", labels], name
            assert (self.samples[name + "_sum", labels] > 0) <= (values[-1] > 0), name

    def get(self, name, **labels):
        return self.samples[name, tuple(sorted(labels.items()))]

    def all(self, name):
        """{labels as a dict in a tuple: value} of one sample name."""
        return {labels: value for (sample, labels), value in self.samples.items() if sample == name}

    def sum(self, name, **labels):
        wanted = set(labels.items())
        return sum(v for (s, have), v in self.samples.items() if s == name and wanted <= set(have))

    def topics(self):
        return {dict(labels)["topic"] for (_, labels) in self.samples if dict(labels).get("topic")}

    def buckets(self, name, **labels):
        """Not added up: {bound as written: count}."""
        last, told = 0, {}
        for (sample, have), value in self.samples.items():
            have = dict(have)
            if sample == name + "_bucket" and {**labels, "le": have["le"]} == have:
                told[have["le"]] = value - last
                last = value
        return told
