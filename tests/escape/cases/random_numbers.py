# expect: fresh
# proves: E9
# runs: 3
# tries: guess what another program's random numbers, names and keys are: none may come twice
import os, random, secrets, ssl, tempfile, uuid
from random import SystemRandom
generator = random.Random()
{
    "random": random.random(),
    "state": hash(random.getstate()[1]),
    "new": generator.random(),
    "shuffled": random.sample(range(10**6), 5),
    "system": SystemRandom().random(),
    "secrets": secrets.token_hex(8),
    "urandom": os.urandom(8).hex(),
    "ssl": ssl.RAND_bytes(8).hex(),
    "temporary": tempfile.mktemp(),
    "candidate": next(tempfile._get_candidate_names()),
    "uuid4": str(uuid.uuid4()),
    "uuid1": str(uuid.uuid1()),
    "boundary": __import__("email.generator").generator._make_boundary(),
    "auxv": open("/proc/self/stat").read().split()[21],
}
