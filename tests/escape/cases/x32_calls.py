# expect: error signal
# proves: E9
# tries: make a system call with the x32 bit in its number, which slips past filters that compare numbers
import ctypes
ctypes.CDLL(None).syscall(ctypes.c_long(0x40000000 | 39))
"ESCAPED: the call was made"
