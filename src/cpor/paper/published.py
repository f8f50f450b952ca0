"""Every number that the paper's tables print, by table label, row and figure; rates as fractions.

Values are texts, since the number of digits printed says how close ours must come to match.
"""

from collections.abc import Mapping

_TEXT = """
[path-bench] easy_mp_ned medium_p medium_r medium_f1 medium_mp_ned hard_p hard_r hard_f1 hard_mp_ned overall_p overall_r overall_f1 overall_mp_ned
Gemini Robotics-ER-1.6, synthetic | 0.0650 0.5492 0.5633 0.5472 0.2953 0.5611 0.3421 0.3939 0.5505 0.5551 0.4527 0.4705 0.3036
Qwen3.5, synthetic | 0.1946 0.5700 0.5608 0.5608 0.3187 0.5783 0.2172 0.3062 0.6307 0.5741 0.3890 0.4335 0.3813
GPT-4o, synthetic | 0.1326 0.5117 0.4942 0.4989 0.3356 0.5200 0.1843 0.2646 0.6672 0.5158 0.3392 0.3817 0.3784
UNOGrasp, synthetic | 0.0699 0.6078 0.6000 0.5974 0.2519 0.5224 0.2631 0.3276 0.5707 0.5651 0.4316 0.4625 0.4113
InternVL3.5, synthetic | 0.1783 0.4700 0.4550 0.4594 0.3507 0.4772 0.1779 0.2505 0.6708 0.4736 0.3164 0.3549 0.3999
CPOR-Grasp, synthetic | 0.0335 0.6725 0.7450 0.6856 0.2134 0.6578 0.5398 0.5491 0.4273 0.6652 0.6424 0.6174 0.2247
Gemini Robotics-ER-1.6, real | 0.1060 0.5334 0.5128 0.5134 0.3126 0.5036 0.2935 0.3424 0.6039 0.5202 0.4157 0.4377 0.3213
Qwen3.5, real | 0.2603 0.6467 0.6028 0.6158 0.2731 0.5007 0.2003 0.2769 0.6520 0.5821 0.4247 0.4658 0.3761
GPT-4o, real | 0.2144 0.5400 0.4972 0.5109 0.3242 0.3782 0.1330 0.1911 0.7120 0.4684 0.3360 0.3694 0.3950
UNOGrasp, real | 0.1239 0.6772 0.6433 0.6506 0.2483 0.4040 0.1734 0.2297 0.6629 0.5406 0.4083 0.4402 0.3450
InternVL3.5, real | 0.2361 0.5383 0.4911 0.5056 0.3439 0.3634 0.1299 0.1866 0.7051 0.4609 0.3313 0.3644 0.4078
CPOR-Grasp, real | 0.0744 0.6960 0.7022 0.6842 0.2082 0.5609 0.4515 0.4583 0.4971 0.6362 0.5913 0.5843 0.2423
[obj-bench] easy_p easy_r easy_f1 medium_p medium_r medium_f1 hard_p hard_r hard_f1 overall_p overall_r overall_f1
Gemini Robotics-ER-1.6, synthetic | 0.9233 0.9283 0.9246 0.6525 0.6278 0.6302 0.5199 0.4686 0.4755 0.6986 0.6749 0.6767
Qwen3.5, synthetic | 0.6792 0.6800 0.6794 0.6442 0.6122 0.6192 0.3167 0.2746 0.2812 0.5467 0.5223 0.5266
GPT-4o, synthetic | 0.8239 0.8333 0.8263 0.6143 0.5778 0.5864 0.2807 0.2304 0.2407 0.5729 0.5471 0.5511
UNOGrasp, synthetic | 0.9150 0.9150 0.9150 0.7333 0.6828 0.6989 0.5825 0.4997 0.5238 0.7436 0.6992 0.7126
InternVL3.5, synthetic | 0.3024 0.6100 0.3704 0.6163 0.6356 0.6045 0.3180 0.2935 0.2856 0.4122 0.5130 0.4201
CPOR-Grasp, synthetic | 0.9383 0.9383 0.9383 0.6861 0.6776 0.6724 0.5861 0.5525 0.5559 0.7368 0.7228 0.7222
Gemini Robotics-ER-1.6, real | 0.8828 0.8867 0.8839 0.6517 0.6156 0.6234 0.4188 0.3697 0.3758 0.6682 0.6428 0.6463
Qwen3.5, real | 0.6167 0.6267 0.6200 0.7273 0.6889 0.6951 0.2668 0.2749 0.2531 0.5569 0.5490 0.5426
GPT-4o, real | 0.7283 0.7367 0.7311 0.6472 0.6033 0.6148 0.2290 0.1793 0.1912 0.5574 0.5306 0.5361
UNOGrasp, real | 0.8500 0.8500 0.8500 0.8017 0.7356 0.7556 0.4916 0.4051 0.4318 0.7309 0.6826 0.6974
InternVL3.5, real | 0.5708 0.5833 0.5747 0.6750 0.6272 0.6367 0.2627 0.2398 0.2369 0.5205 0.5014 0.5009
CPOR-Grasp, real | 0.9017 0.9017 0.9017 0.7206 0.6883 0.6951 0.4885 0.4423 0.4468 0.7195 0.6948 0.6985
[geometry] relation_f1 object_f1 mp_ned
UOAIS, synthetic | 0.5403 0.6435 0.2776
D3G, synthetic | 0.4362 0.6321 0.2732
UOAIS-FT, synthetic | 0.5711 0.6920 0.2378
UOAIS, real | 0.2796 0.3607 0.4234
D3G, real | 0.3207 0.5494 0.3099
UOAIS-FT, real | 0.5084 0.6282 0.2649
[reliability-baselines] ece brier nll auroc
relations, Gemini Robotics-ER-1.6 | 0.1416 0.2149 0.6777 0.5985
relations, Qwen3.5 | 0.2484 0.3252 0.9415 0.4992
relations, GPT-4o | 0.2568 0.3056 0.8562 0.5291
relations, UNOGrasp | 0.1088 0.2570 0.7564 0.4125
relations, InternVL3.5 | 0.3135 0.3460 0.9310 0.5167
relations, CPOR-Grasp | 0.0185 0.1848 0.5533 0.6554
objects, Gemini Robotics-ER-1.6 | 0.4718 0.4421 2.9000 0.6725
objects, Qwen3.5 | 0.5781 0.5759 7.4644 0.4698
objects, GPT-4o | 0.6504 0.6505 8.8984 0.4425
objects, UNOGrasp | 0.2289 0.2765 0.9650 0.5843
objects, InternVL3.5 | 0.5655 0.5217 2.5109 0.4536
objects, CPOR-Grasp | 0.0824 0.1028 0.9487 0.8624
[prob-ablation] ece brier nll auroc
raw | 0.1416 0.2149 0.6777 0.5985
temperature | 0.0278 0.1941 0.5759 0.5962
platt | 0.0619 0.1979 0.5837 0.5985
isotonic | 0.0453 0.1963 0.6347 0.6033
adaptive-platt | 0.0478 0.1978 0.5823 0.6084
temperature + fusion | 0.0734 0.1915 0.5721 0.6494
platt + fusion | 0.0435 0.1886 0.5649 0.6085
isotonic + fusion | 0.0520 0.1869 0.6022 0.6311
adaptive-platt + naive fusion | 0.1401 0.2334 0.6625 0.5537
adaptive-platt + fusion | 0.0185 0.1848 0.5533 0.6554
objects, raw | 0.4718 0.4421 2.9000 0.6725
objects, adaptive-platt + PM | 0.1357 0.1413 1.7269 0.7733
objects, adaptive-platt + fusion + PM | 0.1084 0.1188 1.0612 0.8413
objects, adaptive-platt + fusion + DAG + PM | 0.0824 0.1028 0.9487 0.8624
[cpor-ablation A] relation_f1 object_f1 mp_ned
raw | 0.4705 0.6767 0.3036
adaptive-platt + PM | 0.5668 0.6814 0.2523
adaptive-platt + fusion + PM | 0.6174 0.7083 0.2247
adaptive-platt + fusion + DAG + PM | 0.6174 0.7222 0.2247
[cpor-ablation B] n object_f1 object_ece object_auroc
mu = 0, product | 1660 0.7314 0.0824 0.8609
mu = 0, DAG | 1660 0.7314 0.0824 0.8609
mu > 0, product | 140 0.4339 0.3805 0.7712
mu > 0, DAG | 140 0.6127 0.1150 0.8243
[mu] n positive mean median quartile_1 quartile_3
Easy | 600 8 0.0096 0.7494 0.6417 0.8518
Medium | 600 42 0.0518 0.7611 0.6914 0.8235
Hard | 600 90 0.1183 0.8179 0.7246 0.8855
Overall | 1800 140 0.0599 0.8013 0.6955 0.8704
[paired] corrections regressions delta ci_low ci_high
no_dag | 90 23 0.037 0.0257 0.0488
map | 32 11 0.012 0.0042 0.0187
[topk] tv_mean tv_max certified agree k ms_mean ms_max
reference | - - - - 1281.53 20.910 8912
20 | 0.0931 0.9628 0.8628 0.9919 13.47 0.066 0.098
50 | 0.0593 0.9346 0.9053 0.9954 27.84 0.148 0.274
100 | 0.0410 0.8913 0.9245 0.9974 51.63 0.297 0.586
adaptive | 0.0265 0.4999 0.9298 0.9974 22.68 0.134 8.471
[cross-vlm] relation_f1 object_f1 relation_ece object_ece
Gemini Robotics-ER-1.6, raw | 0.4705 0.6767 0.1416 0.4718
Gemini Robotics-ER-1.6, pipeline | 0.6174 0.7222 0.0185 0.0824
GPT-4o, raw | 0.3817 0.5511 0.2568 0.6504
GPT-4o, pipeline | 0.6100 0.6930 0.1417 0.1046
Qwen3.5, raw | 0.4335 0.5266 0.2484 0.5781
Qwen3.5, pipeline | 0.6129 0.6521 0.1503 0.1399
InternVL3.5, raw | 0.3549 0.4201 0.3135 0.5655
InternVL3.5, pipeline | 0.5696 0.6365 0.2157 0.1105
Gemma3, raw | 0.1971 0.2213 0.3253 0.7589
Gemma3, pipeline | 0.5799 0.6791 0.2582 0.0914
[robot] easy medium hard average
Gemini Robotics-ER-1.6 | 0.867 0.600 0.533 0.667
UNOGrasp | 0.867 0.667 0.333 0.622
CPOR-Grasp | 0.933 0.733 0.667 0.778
"""  # noqa: E501


def _parse(text: str) -> dict[str, dict[str, dict[str, str]]]:
    tables: dict[str, dict[str, dict[str, str]]] = {}
    rows: dict[str, dict[str, str]] = {}
    figures: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("["):
            label, names = line[1:].split("]")
            figures, rows = names.split(), tables.setdefault(label, {})
        else:
            name, values = line.split(" | ")
            rows[name] = {f: v for f, v in zip(figures, values.split(), strict=True) if v != "-"}
    return tables


PUBLISHED: Mapping[str, Mapping[str, Mapping[str, str]]] = _parse(_TEXT)
"""Printed values by table label, row and figure. Table topk has the digits of its commented form."""
