# expect: value null
# proves: E2
# tries: print a number beyond every float as the program's value
echo 1e999
