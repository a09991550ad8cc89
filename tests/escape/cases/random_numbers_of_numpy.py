# expect: fresh
# proves: E9
# runs: 3
# tries: the same with numpy, whose generators are made when it is imported
import numpy, pandas, random
{
    "random": random.random(),
    "global": float(numpy.random.random()),
    "state": hash(numpy.random.get_state()[1].tobytes()),
    "new": float(numpy.random.default_rng().random()),
    "seed": str(numpy.random.SeedSequence().entropy),
    "sample": pandas.Series(range(10**6)).sample(3).tolist(),
    "bits": int(numpy.random.mtrand._rand.randint(1 << 62)),
}
