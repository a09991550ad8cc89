# takes: inodes of the private file systems, all of them, and their teardown
def work(index):
    os.makedirs(f"/tmp/{index}", exist_ok=True)
    number = 0
    while True:
        os.close(os.open(f"/tmp/{index}/{number}", os.O_CREAT | os.O_WRONLY))
        number += 1
        yield


swarm(work)
