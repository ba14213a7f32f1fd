"""The models of the scoreboard: names of the lists of PyTorch's own benchmarks (pytorch/pytorch, benchmarks/dynamo), those that timm,
transformers and torchvision have, built with random weights and small inputs.

build(name, batch, length) gives a module and its keyword or positional arguments.
"""
from __future__ import annotations

import inspect
from typing import Any

import torch

TIMM = """adv_inception_v3 beit_base_patch16_224 botnet26t_256 cait_m36_384 coat_lite_mini convit_base convmixer_768_32 convnext_base
crossvit_9_240 cspdarknet53 deit_base_distilled_patch16_224 dla102 dm_nfnet_f0 dpn107 eca_botnext26ts_256 eca_halonext26ts ese_vovnet19b_dw
fbnetc_100 fbnetv3_b gernet_l ghostnet_100 gluon_inception_v3 gmixer_24_224 gmlp_s16_224 hrnet_w18 inception_v3 jx_nest_base lcnet_050
levit_128 mixer_b16_224 mixnet_l mnasnet_100 mobilenetv2_100 mobilenetv3_large_100 mobilevit_s nfnet_l0 pit_b_224 pnasnet5large
poolformer_m36 regnety_002 repvgg_a2 res2net101_26w_4s res2net50_14w_8s res2next50 resmlp_12_224 resnest101e rexnet_100 sebotnet33ts_256
selecsls42b spnasnet_100 swin_base_patch4_window7_224 swsl_resnext101_32x16d tf_efficientnet_b0 tf_mixnet_l tinynet_a tnt_s_patch16_224
twins_pcpvt_base visformer_small vit_base_patch16_224 volo_d1_224 xcit_large_24_p8_224""".split()

TRANSFORMERS = """AlbertForMaskedLM AlbertForQuestionAnswering AllenaiLongformerBase BartForCausalLM BartForConditionalGeneration
BertForMaskedLM BertForQuestionAnswering BigBird BlenderbotSmallForCausalLM BlenderbotSmallForConditionalGeneration CamemBert
DebertaForMaskedLM DebertaForQuestionAnswering DebertaV2ForMaskedLM DebertaV2ForQuestionAnswering DistilBertForMaskedLM
DistilBertForQuestionAnswering DistillGPT2 ElectraForCausalLM ElectraForQuestionAnswering GPT2ForSequenceClassification GoogleFnet
LayoutLMForMaskedLM LayoutLMForSequenceClassification M2M100ForConditionalGeneration MBartForCausalLM MBartForConditionalGeneration
MT5ForConditionalGeneration MegatronBertForCausalLM MegatronBertForQuestionAnswering MobileBertForMaskedLM MobileBertForQuestionAnswering
OPTForCausalLM PLBartForCausalLM PLBartForConditionalGeneration PegasusForCausalLM PegasusForConditionalGeneration RobertaForCausalLM
RobertaForQuestionAnswering T5ForConditionalGeneration T5Small TrOCRForCausalLM XGLMForCausalLM XLNetLMHeadModel YituTechConvBert""".split()

TORCHVISION = """alexnet densenet121 mnasnet1_0 mobilenet_v2 mobilenet_v3_large resnet18 resnet50 resnext50_32x4d shufflenet_v2_x1_0
squeezenet1_1 vgg16""".split()

# Where the lists' names are not the class's.
CLASSES = {"AllenaiLongformerBase": "LongformerForMaskedLM", "BigBird": "BigBirdForMaskedLM", "CamemBert": "CamembertForMaskedLM",
           "DistillGPT2": "GPT2LMHeadModel", "GoogleFnet": "FNetForMaskedLM", "T5Small": "T5ForConditionalGeneration",
           "YituTechConvBert": "ConvBertForMaskedLM"}
# What the checkpoints that the names stand for have, beside the class's defaults.
CONFIGS = {"DistillGPT2": {"n_layer": 6}, "BigBird": {"attention_type": "original_full"}, "GPT2ForSequenceClassification": {"pad_token_id": 0},
           "AllenaiLongformerBase": {"attention_window": 64}}

SUITES = {"timm": TIMM, "transformers": TRANSFORMERS, "torchvision": TORCHVISION}


def suite_of(name: str) -> str:
    return next(suite for suite, names in SUITES.items() if name in names)


def build(name: str, batch: int, length: int, training: bool = False) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    torch.manual_seed(0)
    suite = suite_of(name)
    if suite == "transformers":
        return build_transformer(name, batch, length, training)
    if suite == "timm":
        import timm
        module = timm.create_model(name, pretrained=False)
        _, height, width = module.default_cfg["input_size"]
    else:
        import torchvision
        module = getattr(torchvision.models, name)(weights=None)
        height = width = 224
    for part in module.modules():  # dropout draws other numbers in each backend
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        elif hasattr(part, "drop_prob"):
            part.drop_prob = 0.0
    return module.train(training), (torch.randn(batch, 3, height, width),), {}


def build_transformer(name: str, batch: int, length: int, training: bool) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]]:
    import transformers
    kind = getattr(transformers, CLASSES.get(name, name))
    config = kind.config_class(**CONFIGS.get(name, {}))
    config.use_cache = False
    if name.endswith("ForCausalLM") and hasattr(config, "is_decoder"):
        config.is_decoder = True
    # Without dropout, as above.
    for key in ("dropout", "attention_dropout", "activation_dropout", "hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout",
                "dropout_rate", "attn_pdrop", "embd_pdrop", "resid_pdrop", "summary_first_dropout", "classifier_dropout_prob", "qa_dropout",
                "seq_classif_dropout", "summary_last_dropout", "generator_dropout", "layerdrop", "encoder_layerdrop",
                "decoder_layerdrop"):
        if isinstance(getattr(config, key, None), (int, float)):
            setattr(config, key, 0.0)
    module = kind(config)
    tokens = torch.randint(1, config.vocab_size - 1, (batch, length))
    inputs = {"input_ids": tokens}
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in inspect.signature(module.forward).parameters:
        inputs["decoder_input_ids"] = torch.randint(1, config.vocab_size - 1, (batch, length))
    return module.train(training), (), inputs
