// NVIDIA. Instructions are PTX's ("PTX ISA"). What ptxas spells out, such as a correctly rounded quotient, is emulated.
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;

const NvidiaUnits& units(const Processor& p) { return p.nvidia->units; }
bool converts_f8(const Processor& p) { return units(p).f8_conversions; }
bool multiplies_f8(const Processor& p) { return units(p).f8_products; }
bool multiplies_groups(const Processor& p) { return units(p).group_products; }
bool multiplies_in_tensor_memory(const Processor& p) { return units(p).tensor_memory; }
bool multiplies_bytes_there(const Processor& p) { return units(p).tensor_bytes; }
bool multiplies_scaled(const Processor& p) { return units(p).block_scales; }
bool adds_bf16(const Processor& p) { return units(p).adds_vectors; }
bool has_fast_f64(const Processor& p) { return units(p).fast_f64; }

constexpr const char* kSpelledOut = "as ptxas spells it out";
constexpr const char* kByteInWord = "in the halves of a word";

constexpr Rule kRules[] = {
    {"add", "i16 i32 u16 u32", nullptr, kNative, "add.s16|add.s32", ""},
    {"add", "i8 u8", nullptr, kEmulated, "add.s16", kByteInWord},
    {"add", "i64 u64", nullptr, kEmulated, "add.s64", "two additions of 32 bits"},
    {"sub", "i16 i32 u16 u32", nullptr, kNative, "sub.s16|sub.s32", ""},
    {"sub", "i8 u8", nullptr, kEmulated, "sub.s16", kByteInWord},
    {"sub", "i64 u64", nullptr, kEmulated, "sub.s64", "two differences of 32 bits"},
    {"mul", "i16 i32 u16 u32", nullptr, kNative, "mul.lo.s16|mul.lo.s32", ""},
    {"mul", "i8 u8", nullptr, kEmulated, "mul.lo.s16", kByteInWord},
    {"mul", "i64 u64", nullptr, kEmulated, "mul.lo.s64", "products of 32 bits"},
    {"div", "i8 i16 i32 i64", nullptr, kEmulated, "div.s*", kSpelledOut},
    {"div", "unsigned", nullptr, kEmulated, "div.u*", kSpelledOut},
    {"rem", "i8 i16 i32 i64", nullptr, kEmulated, "rem.s*", kSpelledOut},
    {"rem", "unsigned", nullptr, kEmulated, "rem.u*", kSpelledOut},
    {"mulhi", "i32 u32", nullptr, kNative, "mul.wide.s32|mul.wide.u32", ""},
    {"mulhi", "i64 u64", nullptr, kEmulated, "mul.hi.s64|mul.hi.u64", "products of 32 bits"},
    {"mulhi", "i8 i16 u8 u16", nullptr, kEmulated, "mul.*", "products of 16 or 32 bits"},
    {"neg", "i16 i32 u16 u32", nullptr, kNative, "neg.s16|neg.s32", ""},
    {"neg", "i8 u8", nullptr, kEmulated, "neg.s16", kByteInWord},
    {"neg", "i64 u64", nullptr, kEmulated, "neg.s64", "two differences of 32 bits"},
    {"abs", "i16", nullptr, kEmulated, "abs.s32", "through i32"},
    {"abs", "i32", nullptr, kEmulated, "max.s32", "a negation and a maximum"},
    {"abs", "i8", nullptr, kEmulated, "abs.s16", kByteInWord},
    {"abs", "i64", nullptr, kEmulated, "max.s64", "a negation and a maximum, of 32 bits each"},
    {"min", "i16 i32 u16 u32", nullptr, kNative, "min.s16|min.s32|min.u16|min.u32", ""},
    {"max", "i16 i32 u16 u32", nullptr, kNative, "max.s16|max.s32|max.u16|max.u32", ""},
    {"min", "i8 u8", nullptr, kEmulated, "min.s16|min.u16", kByteInWord},
    {"max", "i8 u8", nullptr, kEmulated, "max.s16|max.u16", kByteInWord},
    {"min", "i64 u64", nullptr, kEmulated, "min.s64|min.u64", "a comparison and a choice"},
    {"max", "i64 u64", nullptr, kEmulated, "max.s64|max.u64", "a comparison and a choice"},

    {"add", "f32 f64", nullptr, kNative, "add.rn.f32|add.rn.f64", ""},
    {"sub", "f32 f64", nullptr, kNative, "sub.rn.f32|sub.rn.f64", ""},
    {"mul", "f32 f64", nullptr, kNative, "mul.rn.f32|mul.rn.f64", ""},
    {"add", "f16", nullptr, kNative, "add.rn.f16*", ""},
    {"sub", "f16", nullptr, kNative, "sub.rn.f16*", ""},
    {"mul", "f16", nullptr, kNative, "mul.rn.f16*", ""},
    {"fma", "f32 f64", nullptr, kNative, "fma.rn.f32|fma.rn.f64", ""},
    {"div", "f32", has_fast_f64, kEmulated, "rcp.approx.ftz.f64", "an estimate, refined in f64"},
    {"div", "f32", nullptr, kEmulated, "div.rn.f32", kSpelledOut},
    {"div", "f64", nullptr, kEmulated, "div.rn.f64", kSpelledOut},
    {"min", "f32 f16", nullptr, kNative, "min.NaN.f32|min.NaN.f16*", ""},
    {"max", "f32 f16", nullptr, kNative, "max.NaN.f32|max.NaN.f16*", ""},
    {"min max", "f64", nullptr, kEmulated, "setp.*", "comparisons and choices, for NaN"},
    {"neg abs", "f32 f64", nullptr, kNative, "", ""},  // a bit

    {"and or xor", "ints", nullptr, kNative, "", ""},
    {"shl shr", "i16 i32 u16 u32", nullptr, kNative, "", ""},
    {"shl shr", "i8 u8", nullptr, kEmulated, "", kByteInWord},
    {"shl shr", "i64 u64", nullptr, kEmulated, "", "shifts of 32 bits"},
    {"cmp", "i16 i32 u16 u32", nullptr, kNative, "setp.lt.*", ""},
    {"cmp", "i8 u8", nullptr, kEmulated, "setp.lt.*", kByteInWord},
    {"cmp", "i64 u64", nullptr, kEmulated, "setp.lt.*", "two comparisons of 32 bits"},
    {"cmp", "f16 f32 f64", nullptr, kNative, "setp.lt.f*", ""},

    {"math.sqrt", "f32 f64", nullptr, kEmulated, "sqrt.rn.*", kSpelledOut},
    {"math.floor", "f16 f32 f64", nullptr, kNative, "cvt.rmi.*", ""},
    {"math.ceil", "f16 f32 f64", nullptr, kNative, "cvt.rpi.*", ""},
    {"math.round", "f16 f32 f64", nullptr, kNative, "cvt.rni.*", ""},
    {"math.trunc", "f16 f32 f64", nullptr, kNative, "cvt.rzi.*", ""},
    {"math.isnan", "f16", nullptr, kNative, "setp.nan.f16", ""},
    {"math.copysign", "f32 f64", nullptr, kNative, "", ""},  // bits
    {"math.copysign", "small", nullptr, kNative, "", ""},
    {"math.exp,exp2", "f32", nullptr, kEmulated, "ex2.approx.ftz.f32", "an estimate, of an argument that is reduced"},

    {"cast.f32", "i16 i32 i64 u16 u32 u64", nullptr, kNative, "cvt.rn.f32.*", ""},
    {"cast.f64", "i16 i32 i64 u16 u32 u64", nullptr, kNative, "cvt.rn.f64.*", ""},
    {"cast.f32", "i8 u8", nullptr, kEmulated, "sub.rn.f32|cvt.rn.f32.*", "bits by integer ops, and a difference"},
    {"cast.f64", "i8 u8", nullptr, kEmulated, "cvt.rn.f64.*", "through i16"},
    {"cast.i1", "f32 f64", nullptr, kNative, "setp.*", ""},
    {"cast.i32,i64,u32,u64", "f32 f64", nullptr, kNative, "cvt.rzi.*", ""},
    {"cast.i8,i16,u8,u16", "f32 f64", nullptr, kEmulated, "cvt.rzi.*", "clamped before"},
    {"cast.f64", "f32", nullptr, kNative, "cvt.f64.f32", ""},
    {"cast.f32", "f64", nullptr, kNative, "cvt.rn.f32.f64", ""},
    {"cast.f32", "f16", nullptr, kNative, "cvt.f32.f16", ""},
    {"cast.f64", "f16", nullptr, kNative, "cvt.f64.f16", ""},
    {"cast.f16", "f32", nullptr, kNative, "cvt.rn.f16*.f32", ""},
    {"cast.bf16", "f32", nullptr, kNative, "cvt.rn.bf16*.f32", ""},
    {"cast.f8e4m3", "f32", converts_f8, kNative, "cvt.rn.satfinite.e4m3x2.f32", ""},
    {"cast.f8e5m2", "f32", converts_f8, kNative, "cvt.rn.satfinite.e5m2x2.f32", ""},
    {"cast.f16", "f8e4m3", converts_f8, kNative, "cvt.rn.f16x2.e4m3x2", ""},
    {"cast.f16", "f8e5m2", converts_f8, kNative, "cvt.rn.f16x2.e5m2x2", ""},
    {"cast.f32", "f8e4m3", converts_f8, kEmulated, "cvt.rn.f16x2.e4m3x2", "through f16"},
    {"cast.f32", "f8e5m2", converts_f8, kEmulated, "cvt.rn.f16x2.e5m2x2", "through f16"},

    {"dot.ieee", "i8 u8", multiplies_bytes_there, kNative, "tcgen05.mma.*kind::i8*", ""},
    {"dot.ieee", "f16 bf16", multiplies_in_tensor_memory, kNative, "tcgen05.mma.*kind::f16*", ""},
    {"dot.ieee", "f8", multiplies_in_tensor_memory, kNative, "tcgen05.mma.*kind::f8f6f4*", ""},
    {"dot.tf32", "f32", multiplies_in_tensor_memory, kNative, "tcgen05.mma.*kind::tf32*", ""},
    {"dot.ieee", "i8 u8", multiplies_groups, kNative, "wgmma.mma_async.*32.*8.*8", ""},
    {"dot.ieee", "f16 bf16 f8", multiplies_groups, kNative, "wgmma.mma_async.*", ""},
    {"dot.tf32", "f32", multiplies_groups, kNative, "wgmma.mma_async.*tf32*", ""},
    {"dot.ieee", "i8 u8", nullptr, kNative, "mma.sync.*.s32.*8.*8.s32", ""},
    {"dot.ieee", "f16", nullptr, kNative, "mma.sync.*.f32.f16.f16.f32", ""},
    {"dot.ieee", "bf16", nullptr, kNative, "mma.sync.*.f32.bf16.bf16.f32", ""},
    {"dot.ieee", "f8e4m3", multiplies_f8, kNative, "mma.sync.*.f32.e4m3.e4m3.f32", ""},
    {"dot.ieee", "f8e5m2", multiplies_f8, kNative, "mma.sync.*.f32.e5m2.e5m2.f32", ""},
    {"dot.ieee", "f8", nullptr, kEmulated, "mma.sync.*.f32.f16.f16.f32", "through f16"},
    {"dot.tf32", "f32", nullptr, kNative, "mma.sync.*.f32.tf32.tf32.f32", ""},
    {"dot.tf32x3", "f32", nullptr, kEmulated, "mma.sync.*.f32.tf32.tf32.f32", "three products of tf32"},
    {"dot.bf16x3", "f32", nullptr, kEmulated, "mma.sync.*.f32.bf16.bf16.f32", "three products of bf16"},
    {"dot.ieee", "f64", nullptr, kNative, "mma.sync.*.f64.f64.f64.f64", ""},
    {"dot.ieee", "f32", nullptr, kNative, "fma.rn.f32", ""},
    {"dot_scaled", "u8", multiplies_scaled, kNative, "mma.sync.*mxf4.*", ""},
    {"dot_scaled", "f8", multiplies_scaled, kNative, "mma.sync.*mxf8f6f4.*", ""},
    {"dot_scaled", "f8", multiplies_f8, kEmulated, "mma.sync.*.f32.e*m*.e*m*.f32&fma.rn.f32",
     "sums of 32 products, scaled"},
    {"dot_scaled", "u8", multiplies_f8, kEmulated, "mma.sync.*.f32.e4m3.e4m3.f32&fma.rn.f32",
     "sums of 32 products of f8, scaled"},
    {"dot_scaled", "all", nullptr, kEmulated, "mma.sync.*.f32.f16.f16.f32&fma.rn.f32",
     "sums of 32 products of f16, scaled"},

    {"atomic_rmw.add", "i32 i64 u32 u64", nullptr, kNative, "atom.*.add.u*", ""},
    {"atomic_rmw.min", "i32 i64 u32 u64", nullptr, kNative, "atom.*.min.*", ""},
    {"atomic_rmw.max", "i32 i64 u32 u64", nullptr, kNative, "atom.*.max.*", ""},
    {"atomic_rmw.and", "i32 i64 u32 u64", nullptr, kNative, "atom.*.and.*", ""},
    {"atomic_rmw.or", "i32 i64 u32 u64", nullptr, kNative, "atom.*.or.*", ""},
    {"atomic_rmw.xor", "i32 i64 u32 u64", nullptr, kNative, "atom.*.xor.*", ""},
    {"atomic_rmw.xchg", "i32 i64 u32 u64 f32 f64", nullptr, kNative, "atom.*.exch.*", ""},
    {"atomic_rmw.add", "f16 f32 f64", nullptr, kNative, "atom.*.add.*f*", ""},
    {"atomic_rmw.add", "bf16", adds_bf16, kNative, "atom.*.add.noftz.bf16*", ""},
    {"atomic_cas", "i8 u8 f8", nullptr, kEmulated, "atom.*.cas.b16", "compare-and-swap loop, of two bytes"},
    {"atomic_cas", "all", nullptr, kNative, "atom.*.cas.*", ""},
    {"atomic_rmw", "i8 u8 f8", nullptr, kEmulated, "atom.*.cas.b16", "compare-and-swap loop, of two bytes"},
    {"atomic_rmw", "all", nullptr, kEmulated, "atom.*.cas.*", "compare-and-swap loop"},
};

}  // namespace

std::span<const Rule> nvidia_rules() { return kRules; }

}  // namespace kiln::target
