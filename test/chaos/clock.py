"""Wall clocks of single processes: clock.c, preloaded, adds what stands in a file of eight bytes."""
import pathlib
import struct
import subprocess

SOURCE = pathlib.Path(__file__).with_name("clock.c")


class Clock:
    def __init__(self, folder, name, library):
        self.file = folder / f"{name}.clock"
        self.library = library
        self.offset = 0
        self.file.write_bytes(bytes(8))

    @staticmethod
    def make_library(folder):
        made = folder / "clock.so"
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, SOURCE],
                       check=True)
        return made

    def set(self, offset_s):
        """Seconds, with a sign; counts at once."""
        with open(self.file, "r+b") as file:  # in place: it is mapped
            file.write(struct.pack("=q", round(offset_s * 1e6)))
        self.offset = offset_s

    def before(self):
        """Comes before a command that is to live by this clock."""
        return ["env", f"LD_PRELOAD={self.library}", f"CHAOS_CLOCK={self.file}"]
