"""Slow, independent routes to the same numbers: what the product is checked against and measured by.

They share no code with the inference they check. HiGHS and ProbLog come with
`pip install 'cpor-grasp[peers]'`.
"""
