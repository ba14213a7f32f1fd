// AMD (AMD's ISA guides, as in targets.def). Names of instructions are those of LLVM's assembler.
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;
using enum AmdMatrix;

AmdMatrix unit(const Processor& p) { return p.amd->matrix; }
bool is_cdna3(const Processor& p) { return unit(p) == kMfma942 || unit(p) == kMfma950; }
bool is_gfx942(const Processor& p) { return unit(p) == kMfma942; }
bool is_gfx950(const Processor& p) { return unit(p) == kMfma950; }
bool is_gfx90a(const Processor& p) { return unit(p) == kMfma90a; }
bool has_mfma(const Processor& p) { return p.amd->has_mfma(); }
bool is_gfx1250(const Processor& p) { return unit(p) == kWmma1250; }
bool is_gfx12(const Processor& p) { return unit(p) == kWmma12 || is_gfx1250(p); }
bool has_wmma(const Processor& p) { return unit(p) == kWmma11 || is_gfx12(p); }
bool has_ocp_f8(const Processor& p) { return p.amd->has_ocp_f8(); }
bool keeps_nan(const Processor& p) { return unit(p) == kMfma950 || p.amd->major == 12; }
bool adds_f32(const Processor& p) { return p.amd->adds_f32; }
bool adds_f64(const Processor& p) { return p.amd->adds_f64; }

constexpr const char* kInHalves = "in the halves of a word";
constexpr const char* kTwoOf32 = "two instructions of 32 bits";
constexpr const char* kRefined = "an estimate, refined";
constexpr const char* kForNan = "a choice for NaN";
constexpr const char* kClamped = "clamped before";
constexpr const char* kExchange = "compare-and-swap loop";
constexpr const char* kExchangeOfWord = "compare-and-swap loop, of four bytes";

constexpr Rule kRules[] = {
    {"add", "i16 i32 u16 u32", nullptr, kNative, "v_add_*|v_pk_add_*|v_dual_add_nc_u32", ""},
    {"add", "i8 u8", nullptr, kEmulated, "v_add_*", kInHalves},
    {"add", "i64 u64", is_gfx1250, kNative, "v_add_nc_u64*|v_lshl_add_u64", ""},
    {"add", "i64 u64", is_cdna3, kNative, "v_lshl_add_u64", ""},
    {"add", "i64 u64", nullptr, kEmulated, "v_add_co_*", kTwoOf32},
    {"sub neg", "i16 i32 u16 u32", nullptr, kNative, "v_sub_*|v_pk_sub_*|v_dual_sub_nc_u32", ""},
    {"sub neg", "i8 u8", nullptr, kEmulated, "v_sub_*", kInHalves},
    {"sub neg", "i64 u64", is_gfx1250, kNative, "v_sub_nc_u64*", ""},
    {"sub neg", "i64 u64", nullptr, kEmulated, "v_sub_co_*", kTwoOf32},
    {"mul", "i16 u16", nullptr, kNative, "v_mul_lo_u16*|v_pk_mul_lo_u16*", ""},
    {"mul", "i32 u32", nullptr, kNative, "v_mul_lo_u32", ""},
    {"mul", "i8 u8", nullptr, kEmulated, "v_mul_lo_u16*", kInHalves},
    {"mul", "i64 u64", is_gfx1250, kNative, "v_mul_u64*", ""},
    {"mul", "i64 u64", nullptr, kEmulated, "v_mad_u64_u32|v_mad_co_u64_u32|v_mul_hi_u32", "products of 32 bits"},
    {"div rem", "i8 i16 u8 u16", nullptr, kEmulated, "v_rcp_iflag_f32*", "a quotient of f32, corrected"},
    {"div rem", "i32 i64 u32 u64", nullptr, kEmulated, "v_rcp*f32*", "an estimate in f32, refined in ints"},
    {"mulhi", "i32", nullptr, kNative, "v_mul_hi_i32", ""},
    {"mulhi", "u32", nullptr, kNative, "v_mul_hi_u32", ""},
    {"mulhi", "i64 u64", nullptr, kEmulated, "v_mad_u64_u32|v_mad_co_u64_u32|v_mad_nc_u64_u32|v_mul_hi_u32",
     "products of 32 bits"},
    {"mulhi", "i8 i16 u8 u16", nullptr, kEmulated, "v_mul_*", "products of 16 or 24 bits"},
    {"abs", "i16 i32", nullptr, kEmulated, "v_max_*", "a negation and a maximum"},
    {"abs", "i8", nullptr, kEmulated, "v_max_*", "a negation and a maximum, in the halves of a word"},
    {"abs", "i64", is_gfx1250, kEmulated, "v_sub_nc_u64*", "a negation by the sign"},
    {"abs", "i64", nullptr, kEmulated, "v_sub_co_*", "a negation by the sign, of 32 bits each"},
    {"min", "i16 i32 u16 u32", nullptr, kNative, "v_min_*|v_pk_min_*", ""},
    {"max", "i16 i32 u16 u32", nullptr, kNative, "v_max_*|v_pk_max_*", ""},
    {"min", "i8 u8", nullptr, kEmulated, "v_min_*", kInHalves},
    {"max", "i8 u8", nullptr, kEmulated, "v_max_*", kInHalves},
    {"min", "i64 u64", is_gfx1250, kNative, "v_min_i64|v_min_u64", ""},
    {"max", "i64 u64", is_gfx1250, kNative, "v_max_i64|v_max_u64", ""},
    {"min max", "i64 u64", nullptr, kEmulated, "v_cmp_*64*", "a comparison and a choice"},

    {"add", "f32", nullptr, kNative, "v_add_f32*|v_pk_add_f32*|v_dual_add_f32", ""},
    {"sub", "f32", nullptr, kNative, "v_sub_f32*|v_subrev_f32*|v_pk_add_f32*|v_dual_sub_f32", ""},
    {"mul", "f32", nullptr, kNative, "v_mul_f32*|v_pk_mul_f32*|v_dual_mul_f32", ""},
    {"fma", "f32", nullptr, kNative, "v_fma*_f32*|v_pk_fma_f32*|v_dual_fma*_f32", ""},
    {"add sub", "f64", nullptr, kNative, "v_add_f64*", ""},
    {"mul", "f64", nullptr, kNative, "v_mul_f64*", ""},
    {"fma", "f64", nullptr, kNative, "v_fma*_f64*", ""},
    {"add", "f16", nullptr, kNative, "v_add_f16*|v_pk_add_f16*", ""},
    {"sub", "f16", nullptr, kNative, "v_sub*_f16*|v_pk_add_f16*", ""},
    {"mul", "f16", nullptr, kNative, "v_mul_f16*|v_pk_mul_f16*", ""},
    {"fma", "f16", nullptr, kEmulated, "v_fma_mix*", "in f32, with conversions in the instruction"},
    {"div", "f32 f64", nullptr, kEmulated, "v_div_scale_*&v_rcp_*&v_div_fixup_*", kRefined},
    {"min", "f16 f32", keeps_nan, kNative, "v_minimum*|v_pk_minimum*", ""},
    {"max", "f16 f32", keeps_nan, kNative, "v_maximum*|v_pk_maximum*", ""},
    {"min", "f16 f32", nullptr, kEmulated, "v_min*_f*|v_pk_min_f*|v_dual_min_f32", kForNan},
    {"max", "f16 f32", nullptr, kEmulated, "v_max*_f*|v_pk_max_f*|v_dual_max_f32", kForNan},
    {"min max", "f64", nullptr, kEmulated, "v_cmp_*f64*", "comparisons and choices, for NaN"},
    {"neg", "f32 f64", nullptr, kNative, "v_xor_b32*", ""},
    {"abs", "f32 f64", nullptr, kNative, "v_and_b32*", ""},

    {"and or xor", "ints", nullptr, kNative, "", ""},
    {"shl", "i16 i32 u16 u32", nullptr, kNative, "v_lshlrev_b*", ""},
    {"shr", "i16 i32", nullptr, kNative, "v_ashrrev_i*|v_dual_ashrrev_i32", ""},
    {"shr", "u16 u32", nullptr, kNative, "v_lshrrev_b*|v_dual_lshrrev_b32", ""},
    {"shl", "i64 u64", nullptr, kNative, "v_lshlrev_b64*", ""},
    {"shr", "i64", nullptr, kNative, "v_ashrrev_i64*", ""},
    {"shr", "u64", nullptr, kNative, "v_lshrrev_b64*", ""},
    {"shl shr", "i8 u8", nullptr, kEmulated, "", kInHalves},
    {"cmp", "i16 i32 i64 u16 u32 u64", nullptr, kNative, "v_cmp_lt_*|v_cmp_gt_*", ""},
    {"cmp", "i8 u8", nullptr, kEmulated, "v_cmp_lt_*|v_cmp_gt_*", kInHalves},
    {"cmp", "f16 f32 f64", nullptr, kNative, "v_cmp_lt_f*|v_cmp_gt_f*", ""},

    {"math.floor", "f16 f32 f64", nullptr, kNative, "v_floor_f*", ""},
    {"math.ceil", "f16 f32 f64", nullptr, kNative, "v_ceil_f*", ""},
    {"math.round", "f16 f32 f64", nullptr, kNative, "v_rndne_f*", ""},
    {"math.trunc", "f16 f32 f64", nullptr, kNative, "v_trunc_f*", ""},
    {"math.isnan", "f16", nullptr, kNative, "v_cmp_u_f16*", ""},
    {"math.isinf", "f16", nullptr, kNative, "v_cmp_class_f16*", ""},
    {"math.copysign", "f32 f64", nullptr, kNative, "v_bfi_b32", ""},
    {"math.copysign", "small", nullptr, kNative, "", ""},  // bits
    {"math.sqrt", "f32", nullptr, kEmulated, "v_sqrt_f32*|v_rsq_f32*", kRefined},
    {"math.sqrt", "f64", nullptr, kEmulated, "v_rsq_f64*", kRefined},
    {"math.rsqrt", "f32", nullptr, kEmulated, "v_sqrt_f32*|v_rsq_f32*", kRefined},
    {"math.rsqrt", "f64", nullptr, kEmulated, "v_rsq_f64*", "a quotient and a root"},
    {"math.exp,exp2", "f32", nullptr, kEmulated, "v_exp_f32*", "an estimate, of an argument that is reduced"},

    {"cast.f32", "i32", nullptr, kNative, "v_cvt_f32_i32*", ""},
    {"cast.f32", "u32", nullptr, kNative, "v_cvt_f32_u32*", ""},
    {"cast.f64", "i32", nullptr, kNative, "v_cvt_f64_i32*", ""},
    {"cast.f64", "u32", nullptr, kNative, "v_cvt_f64_u32*", ""},
    {"cast.f32", "u8", nullptr, kNative, "v_cvt_f32_ubyte*", ""},
    {"cast.f32", "i8 i16 u16", nullptr, kEmulated, "v_cvt_f32_i32*|v_cvt_f32_u32*", "through i32"},
    {"cast.f64", "i8 i16 u8 u16", nullptr, kEmulated, "v_cvt_f64_i32*|v_cvt_f64_u32*", "through i32"},
    {"cast.f32", "i64 u64", nullptr, kEmulated, "v_cvt_f32_i32*|v_cvt_f32_u32*",
     "of 32 bits that are shifted to the top"},
    {"cast.f64", "i64 u64", nullptr, kEmulated, "v_ldexp_f64*", "of two words, which are added up"},
    {"cast.i1", "f16 f32 f64", nullptr, kNative, "v_cmp_neq_f*|v_cmp_lg_f*", ""},
    {"cast.i32", "f32", nullptr, kNative, "v_cvt_i32_f32*", ""},
    {"cast.u32", "f32", nullptr, kNative, "v_cvt_u32_f32*", ""},
    {"cast.i32", "f64", nullptr, kNative, "v_cvt_i32_f64*", ""},
    {"cast.u32", "f64", nullptr, kNative, "v_cvt_u32_f64*", ""},
    {"cast.i8,i16", "f32 f64", nullptr, kEmulated, "v_cvt_i32_f*", kClamped},
    {"cast.u8,u16", "f32 f64", nullptr, kEmulated, "v_cvt_u32_f*", kClamped},
    {"cast.i64,u64", "f32 f64", nullptr, kEmulated, "v_floor_f*", "two words, one after the other"},
    {"cast.f64", "f32", nullptr, kNative, "v_cvt_f64_f32*", ""},
    {"cast.f32", "f64", nullptr, kNative, "v_cvt_f32_f64*", ""},
    {"cast.f32", "f16", nullptr, kNative, "v_cvt_f32_f16*", ""},
    {"cast.f16", "f32", nullptr, kNative, "v_cvt_f16_f32*|v_cvt_pk_f16_f32*", ""},
    {"cast.f32", "f8e4m3", has_ocp_f8, kNative, "v_cvt_f32_fp8*", ""},
    {"cast.f32", "f8e5m2", has_ocp_f8, kNative, "v_cvt_f32_bf8*", ""},
    {"cast.f8e4m3", "f32", has_ocp_f8, kNative, "v_cvt_pk_fp8_f32*", ""},
    {"cast.f8e5m2", "f32", has_ocp_f8, kNative, "v_cvt_pk_bf8_f32*", ""},

    {"dot.ieee", "f64", has_mfma, kNative, "v_mfma_f64_*", ""},
    {"dot.ieee", "f32", has_mfma, kNative, "v_mfma_f32_*_f32|v_mfma_f32_*f32", ""},
    {"dot.tf32", "f32", is_gfx942, kNative, "v_mfma_f32_*_xf32", ""},
    {"dot.tf32,tf32x3,bf16x3", "f32", has_mfma, kNative, "v_mfma_f32_*_f32|v_mfma_f32_*f32", "as ieee"},
    {"dot.ieee", "f16", is_gfx90a, kEmulated, "v_mfma_f32_*_f32|v_mfma_f32_*f32", "through f32, for subnormals"},
    {"dot.ieee", "f16", has_mfma, kNative, "v_mfma_f32_*_f16", ""},
    {"dot.ieee", "bf16", has_mfma, kNative, "v_mfma_f32_*bf16*", ""},
    {"dot.ieee", "i8", has_mfma, kNative, "v_mfma_i32_*i8", ""},
    {"dot.ieee", "f8e4m3", is_gfx942, kEmulated, "v_mfma_f32_*_fp8_fp8", "as numbers of half the size, of FNUZ"},
    {"dot.ieee", "f8e4m3", is_gfx950, kNative, "v_mfma_f32_*_fp8_fp8", ""},
    {"dot.ieee", "f8e5m2", is_gfx950, kNative, "v_mfma_f32_*_bf8_bf8", ""},
    {"dot.ieee", "f8", is_gfx90a, kEmulated, "v_mfma_f32_*_f32|v_mfma_f32_*f32", "through f32"},
    {"dot.ieee", "f8", has_mfma, kEmulated, "v_mfma_f32_*_f16", "through f16"},
    {"dot.ieee", "f16", has_wmma, kNative, "v_wmma_f32_*_f16", ""},
    {"dot.ieee", "bf16", has_wmma, kNative, "v_wmma_f32_*_bf16", ""},
    {"dot.ieee", "i8 u8", has_wmma, kNative, "v_wmma_i32_*_iu8", ""},
    {"dot.ieee", "f8e4m3", is_gfx12, kNative, "v_wmma_f32_*_fp8_fp8", ""},
    {"dot.ieee", "f8e5m2", is_gfx12, kNative, "v_wmma_f32_*_bf8_bf8", ""},
    {"dot.ieee", "f8", has_wmma, kEmulated, "v_wmma_f32_*_f16", "through f16"},
    {"dot.ieee,tf32,tf32x3,bf16x3", "f32", is_gfx1250, kNative, "v_wmma_f32_*_f32", ""},
    {"dot.bf16x3", "f32", has_wmma, kEmulated, "v_wmma_f32_*_bf16", "three products of bf16"},
    {"dot.tf32,tf32x3,bf16x3", "f32", nullptr, kNative, "v_fma*_f32*|v_dual_fmac_f32|v_pk_fma_f32*", "as ieee"},
    {"dot.ieee", "f32", nullptr, kNative, "v_fma*_f32*|v_dual_fmac_f32|v_pk_fma_f32*", ""},
    {"dot.ieee", "f64", nullptr, kNative, "v_fma*_f64*", ""},
    {"dot.ieee", "small", nullptr, kEmulated, "v_fma*_f32*|v_fma_mix*|v_pk_fma_f32*", "through f32"},
    {"dot.ieee", "i8 u8", nullptr, kEmulated, "v_mad_*|v_mul_*", "through i32"},
    {"dot_scaled", "all", is_gfx950, kNative, "v_mfma_scale_f32_*", ""},
    {"dot_scaled", "all", is_gfx1250, kNative, "v_wmma_scale_f32_*", ""},
    {"dot_scaled", "all", nullptr, kEmulated, "v_fma*_f32*|v_pk_fma_f32*|v_dual_fmac_f32",
     "sums of 32 products, scaled"},

    {"atomic_rmw.add", "i32 i64 u32 u64", nullptr, kNative, "global_atomic_add*", ""},
    {"atomic_rmw.min", "i32 i64", nullptr, kNative, "global_atomic_smin*|global_atomic_min_i*", ""},
    {"atomic_rmw.max", "i32 i64", nullptr, kNative, "global_atomic_smax*|global_atomic_max_i*", ""},
    {"atomic_rmw.min", "u32 u64", nullptr, kNative, "global_atomic_umin*|global_atomic_min_u*", ""},
    {"atomic_rmw.max", "u32 u64", nullptr, kNative, "global_atomic_umax*|global_atomic_max_u*", ""},
    {"atomic_rmw.and", "i32 i64 u32 u64", nullptr, kNative, "global_atomic_and*", ""},
    {"atomic_rmw.or", "i32 i64 u32 u64", nullptr, kNative, "global_atomic_or*", ""},
    {"atomic_rmw.xor", "i32 i64 u32 u64", nullptr, kNative, "global_atomic_xor*", ""},
    {"atomic_rmw.xchg", "i32 i64 u32 u64 f32 f64", nullptr, kNative, "global_atomic_swap*", ""},
    {"atomic_rmw.add", "f32", adds_f32, kNative, "global_atomic_add_f32", ""},
    {"atomic_rmw.add", "f64", adds_f64, kNative, "global_atomic_add_f64", ""},
    {"atomic_cas", "i32 i64 u32 u64 f32 f64", nullptr, kNative, "global_atomic_cmpswap*", ""},
    {"atomic_rmw", "i32 i64 u32 u64 f32 f64", nullptr, kEmulated, "global_atomic_cmpswap*", kExchange},
    {"atomic_rmw atomic_cas", "all", nullptr, kEmulated, "global_atomic_cmpswap*", kExchangeOfWord},
};

}  // namespace

std::span<const Rule> amd_rules() { return kRules; }

}  // namespace kiln::target
