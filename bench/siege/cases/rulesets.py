# takes: Landlock rulesets in number, with rules on every directory, and layers of them
def work(index):
    attributes = ctypes.create_string_buffer(struct.pack("QQ", 4, 0))
    places = [os.open(path, os.O_PATH) for path in ("/", "/usr", "/tmp", "/usr/lib", "/usr/bin")]
    kept = []
    while True:
        if len(kept) >= 150:
            while kept:
                os.close(kept.pop())
        kept.append(require(call("landlock_create_ruleset", attributes, 8, 0)))
        for place in places:
            require(call("landlock_add_rule", kept[-1], 1, ctypes.create_string_buffer(struct.pack("=Qi", 4, place)), 0))
        yield


swarm(work)
