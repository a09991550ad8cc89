# takes: rename_lock and the locks of inodes: directories moved across one another in a private file system
def work(index):
    base = f"/tmp/{index % 8}"
    for side in ("a", "b"):
        os.makedirs(f"{base}/{side}", exist_ok=True)
    name = f"{base}/a/{index}", f"{base}/b/{index}"
    os.mkdir(name[0])
    while True:
        os.rename(*name)
        os.rename(name[1], name[0])
        yield


swarm(work)
