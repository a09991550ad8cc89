# takes: POSIX timers and timer descriptors that expire as often as they can: hash table, interrupts, pending signals
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_long), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_long * 8)]


def work(index):
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    often = ctypes.create_string_buffer(struct.pack("4q", 0, 1000, 0, 1000))
    event, number = Event(0, signal.SIGUSR1, 0), ctypes.c_int()
    for _ in range(200):
        timer = require(call("timerfd_create", 1, 0))
        require(call("timerfd_settime", timer, 0, often, 0))
    while True:
        require(call("timer_create", 1, ctypes.byref(event), ctypes.byref(number)))
        require(call("timer_settime", number.value, 0, often, 0))
        yield


swarm(work)
