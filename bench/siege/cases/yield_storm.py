# takes: the locks of the run queues: processes that yield, change their priority and policy as fast as they can
def work(index):
    while True:
        for _ in range(1000):
            os.sched_yield()
        os.nice(0)
        for policy in (os.SCHED_BATCH, os.SCHED_IDLE, os.SCHED_OTHER):
            try:
                os.sched_setscheduler(0, policy, os.sched_param(0))
            except OSError:
                pass
        yield


swarm(work)
