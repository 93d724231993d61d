"""Language codes that are built into tokenizers of transformers, so that the folder of a model does not list them."""

_M2M100 = (
    "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy "
    "id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru "
    "sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
)
_MBART50 = (
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM ne_NP nl_XX "
    "ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN "
    "pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
)
M2M100 = tuple(_M2M100.split())
"""Languages of M2M-100, in the order of their tokens (Fan et al. 2020)."""
WMT21 = ("en", "ha", "is", "ja", "cs", "ru", "zh", "de")
"""Languages of the models that Facebook AI submitted to WMT 2021, in the order of their tokens (Tran et al. 2021)."""
MBART50 = tuple(_MBART50.split())
"""Languages of mBART-50, in the order of their tokens (Tang et al. 2020)."""
