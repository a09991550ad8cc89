# expect: timeout or killed memory_bytes or error MemoryError or value "<Endless object: repr raised MemoryError>"
# proves: E4
# limits: wall_seconds=2 memory_bytes=64MiB
# tries: return a value whose repr never ends
class Endless:
    def __repr__(self):
        text = "x"
        while True:
            text += text
Endless()
