# takes: splice, tee and copy_file_range of files and pipes that are the same
def work(index):
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    file = os.open(f"/tmp/spliced-{index}", os.O_RDWR | os.O_CREAT)
    os.write(file, bytes(1 << 20))
    while True:
        os.splice(file, writing, 1 << 16, offset_src=0, flags=2)
        call("tee", reading, writing, 1 << 16, 2)
        os.splice(reading, file, 1 << 16, offset_dst=0, flags=2)
        os.sendfile(file, file, 0, 1 << 16)
        try:
            os.copy_file_range(file, file, 1 << 16, 0, 1 << 18)
        except OSError:
            pass
        yield


swarm(work)
