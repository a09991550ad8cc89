# expect: killed stored_output_bytes
# proves: E4
# tries: flood the output
yes ESCAPE
