# takes: threads that begin and end as fast as they can
# needs: cgroups
def work(index):
    while True:
        threads = [threading.Thread(target=int) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        yield


swarm(work, 16)
