# takes: the journal of the disk's file system: small files made, renamed, synced and removed
# tool: exec_command
def work(index):
    place = tempfile.mkdtemp(dir=".")
    directory = os.open(place, os.O_RDONLY)
    number = 0
    while True:
        with open(f"{place}/one", "w") as file:
            file.write("x")
        os.rename(f"{place}/one", f"{place}/two")
        os.unlink(f"{place}/two")
        number += 1
        if number % 50 == 0:
            os.fsync(directory)
        yield


swarm(work, 16)
