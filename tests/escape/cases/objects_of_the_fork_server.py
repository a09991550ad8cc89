# expect: value "blocked"
# proves: E9, T4
# runs: 2
# tries: walk all objects and frames for another program's text, the host's profile, sockets and names of the host
import gc, os, socket, sys, types
MARK = "another-program" + "-was-here"
wrong = {}
gc.unfreeze()
gc.collect()
frame, names = sys._getframe(), []
while frame is not None:
    names.append(f"{frame.f_code.co_filename}:{frame.f_code.co_name}")
    for name, value in {**frame.f_locals, **frame.f_globals}.items():
        if isinstance(value, (str, bytes)) and len(value) > 50000:
            wrong[f"{names[-1]} {name}"] = f"{len(value)} of {type(value).__name__}"
    frame = frame.f_back
seen, queue, texts = set(), [*gc.get_objects(), *sys._current_frames().values()], []
while queue:
    one = queue.pop()
    if id(one) in seen or one is seen or one is queue or one is texts:
        continue
    seen.add(id(one))
    if isinstance(one, str) and len(one) < 100000:
        texts.append(one)
    elif isinstance(one, bytes) and len(one) < 100000:
        texts.append(one.decode("latin-1"))
    elif isinstance(one, socket.socket) and os.path.lexists(f"/proc/self/fd/{one.fileno()}"):
        wrong.setdefault("sockets", []).append(one.fileno())
    queue += gc.get_referents(one)
if len(wrong.get("sockets", ())) <= 1:
    wrong.pop("sockets", None)
mine = __loader__.source if hasattr(__loader__, "source") else ""
for text in texts:
    if text is mine or MARK + " " in text and text in mine:
        continue
    if "canary-" in text and len(text) < 200 and "canary-" != text and "canary-" not in mine:
        wrong["secret"] = f"ESCAPED: {text[:100]}"
    if "@secret@" in text and text not in mine and len(text) < 1000:
        wrong["host"] = f"ESCAPED: {text[:100]}"
    if "another-program-was-here " in text:
        wrong["program"] = f"ESCAPED: {text[:100]}"
marker = MARK + " " + str(os.getpid())
wrong or "blocked"
