# takes: memory of the kernel for extended attributes of files in memory
def work(index):
    file = os.open(f"/tmp/{index}", os.O_RDWR | os.O_CREAT)
    number = 0
    while number < scaled(20_000):
        os.setxattr(file, f"user.{number}", bytes(4000))
        number += 1
        yield


swarm(work)
