# takes: epoll watches, which all processes of a user share: one for each pair of a file and a number, so few files do
# tool: exec_command
# runs: 1
import select

def work(index):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    reading, writing = os.pipe()
    polls = [select.epoll() for _ in range(scaled(60))]
    for number in range(200, scaled(hard - 200) + 200):
        os.dup2(reading, number)
        for poll in polls:
            poll.register(number, select.EPOLLIN)
            yield


swarm(work, 400)
