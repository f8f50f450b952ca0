"""What may be wrong with an input, found before anything is decided.

check_frame    the picture and its depth, no masks needed
check_masks    the masks against both
"""
