# takes: locks of the dentry tree: deep directories made, walked by getcwd and .., and removed
def work(index):
    place = f"/tmp/deep-{index}"
    while True:
        os.mkdir(place)
        os.chdir(place)
        for _ in range(50):
            os.mkdir("d")
            os.chdir("d")
        for _ in range(50):
            os.getcwd()
            os.stat("/".join([".."] * 50))
            os.chdir("..")
            os.rmdir("d")
        os.chdir("/tmp")
        os.rmdir(place)
        yield


swarm(work)
