// AArch64 whose code is of scalable vectors longer than Neon's (Arm Architecture Reference Manual, "SVE"). What is not
// here is as the rules of AArch64 have it.
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;

bool is_long(const Processor& p) { return p.cpu.sve_bits > 128; }
bool has_f16(const Processor& p) { return is_long(p) && p.cpu.f16_arithmetic; }
// Neon multiplies them elsewhere.
bool widens_bytes(const Processor& p) { return is_long(p) && p.cpu.bytes == DotUnit::kWiden; }
bool widens_bf16(const Processor& p) { return is_long(p) && p.cpu.bf16 == DotUnit::kWiden; }

constexpr const char* kForNan = "comparisons and choices, for NaN";
constexpr const char* kSaturated = "comparisons saturate";

constexpr Rule kRules[] = {
    {"add", "ints", is_long, kNative, "add z*", ""},
    {"sub", "ints", is_long, kNative, "sub z*", ""},
    {"neg", "ints", is_long, kNative, "subr z*|neg z*", ""},
    {"add", "f32 f64", is_long, kNative, "fadd z*", ""},
    {"sub", "f32 f64", is_long, kNative, "fsub z*", ""},
    {"mul", "f32 f64", is_long, kNative, "fmul z*", ""},
    {"div", "f32 f64", is_long, kNative, "fdiv z*|fdivr z*", ""},
    {"add", "f16", has_f16, kNative, "fadd z*.h*", ""},
    {"sub", "f16", has_f16, kNative, "fsub z*.h*", ""},
    {"mul", "f16", has_f16, kNative, "fmul z*.h*", ""},
    {"div", "f16", has_f16, kNative, "fdiv z*.h*|fdivr z*.h*", ""},
    {"mul", "ints", is_long, kNative, "mul z*", ""},
    {"div rem", "i8 i16 i32 u8 u16 u32", is_long, kEmulated, "fdiv z*|fdivr z*", "a quotient of floats"},
    {"mulhi", "i64 u64", is_long, kEmulated, "mul z*", "products of 32 bits"},
    {"fma", "f32 f64", is_long, kNative, "fmla z*|fmad z*", ""},
    {"min", "signed", is_long, kNative, "smin z*", ""},
    {"max", "signed", is_long, kNative, "smax z*", ""},
    {"min", "unsigned", is_long, kNative, "umin z*", ""},
    {"max", "unsigned", is_long, kNative, "umax z*", ""},
    {"min max", "f32 f64", is_long, kEmulated, "fcmgt p*", kForNan},
    {"min max", "f16", has_f16, kEmulated, "fcmgt p*.h*", kForNan},
    {"neg", "f32 f64", is_long, kNative, "fneg z*", ""},
    {"abs", "signed", is_long, kNative, "abs z*", ""},
    {"abs", "f32 f64", is_long, kNative, "fabs z*", ""},

    {"and", "ints", is_long, kNative, "and z*", ""},
    {"or", "ints", is_long, kNative, "orr z*", ""},
    {"xor", "ints", is_long, kNative, "eor z*", ""},
    {"shl", "ints", is_long, kNative, "lsl z*|lslr z*", ""},
    {"shr", "signed", is_long, kNative, "asr z*|asrr z*", ""},
    {"shr", "unsigned", is_long, kNative, "lsr z*|lsrr z*", ""},
    {"cmp", "signed", is_long, kNative, "cmpgt p*", ""},
    {"cmp", "unsigned", is_long, kNative, "cmphi p*", ""},
    {"cmp", "f32 f64", is_long, kNative, "fcmgt p*", ""},
    {"cmp", "f16", has_f16, kNative, "fcmgt p*.h*", ""},

    {"math.sqrt", "f32 f64", is_long, kNative, "fsqrt z*", ""},
    {"math.floor", "f32 f64", is_long, kNative, "frintm z*", ""},
    {"math.ceil", "f32 f64", is_long, kNative, "frintp z*", ""},
    {"math.round", "f32 f64", is_long, kNative, "frintn z*", ""},
    {"math.trunc", "f32 f64", is_long, kNative, "frintz z*", ""},
    {"math.floor", "f16", has_f16, kNative, "frintm z*.h*", ""},
    {"math.ceil", "f16", has_f16, kNative, "frintp z*.h*", ""},
    {"math.round", "f16", has_f16, kNative, "frintn z*.h*", ""},
    {"math.trunc", "f16", has_f16, kNative, "frintz z*.h*", ""},
    {"math.isnan", "f16", has_f16, kNative, "fcmuo p*.h*", ""},
    {"math.copysign", "f32 f64", is_long, kEmulated, "orr z*|bsl z*", "bits by integer ops"},
    {"math.rsqrt", "f32 f64", is_long, kEmulated, "fdiv z*|fdivr z*&fsqrt z*", "a quotient and a root"},
    {"math.hypot", "f32", is_long, kEmulated, "fsqrt z*.d*", "a root of f64"},
    {"math.hypot", "f64", is_long, kEmulated, "fsqrt z*.d*", "a root of what is scaled"},

    {"cast.f32", "i32 i64", is_long, kNative, "scvtf z*.s*", ""},
    {"cast.f32", "u32 u64", is_long, kNative, "ucvtf z*.s*", ""},
    {"cast.f64", "i64", is_long, kNative, "scvtf z*.d*", ""},
    {"cast.f64", "u64", is_long, kNative, "ucvtf z*.d*", ""},
    {"cast.f32", "i8 i16", is_long, kEmulated, "scvtf z*", "through i32"},
    {"cast.f32", "u8 u16", is_long, kEmulated, "ucvtf z*", "through i32"},
    {"cast.f64", "i8 i16 i32", is_long, kEmulated, "scvtf z*.d*", "through i64"},
    {"cast.f64", "u8 u16 u32", is_long, kEmulated, "ucvtf z*.d*", "through i64"},
    {"cast.i1", "f32 f64", is_long, kNative, "fcmne p*", ""},
    {"cast.i1", "f16", has_f16, kNative, "fcmne p*.h*", ""},
    {"cast.i8,i16,i32,u8,u16,u32", "f32", is_long, kEmulated, "fcvtz* z*.s*", kSaturated},
    {"cast.i64,u64", "f32", is_long, kEmulated, "fcvtz* z*.d*", kSaturated},
    {"cast.i8,i16,i32,i64,u8,u16,u32,u64", "f64", is_long, kEmulated, "fcvtz* z*.d*", kSaturated},
    {"cast.f64", "f32", is_long, kNative, "fcvt z*.d*", ""},
    {"cast.f32", "f64", is_long, kNative, "fcvt z*.s*", ""},
    {"cast.f32", "f16", is_long, kNative, "fcvt z*.s*", ""},
    {"cast.f16", "f32", is_long, kNative, "fcvt z*.h*", ""},

    {"dot.ieee", "f32 f64", is_long, kNative, "fmla z*", ""},
    {"dot.tf32", "f32", is_long, kEmulated, "fmla z*", "operands rounded by integer ops"},
    {"dot.tf32x3,bf16x3", "f32", is_long, kNative, "fmla z*", "as ieee"},
    {"dot.ieee", "i8 u8", widens_bytes, kEmulated, "mla z*|mad z*", "through i32"},
    {"dot.ieee", "f16", is_long, kEmulated, "fmla z*", "through f32"},
    {"dot.ieee", "bf16 f8", widens_bf16, kEmulated, "fmla z*", "through f32"},
    {"dot_scaled", "all", is_long, kEmulated, "fmla z*", "scaled, through f64"},
};

}  // namespace

std::span<const Rule> sve_rules() { return kRules; }

}  // namespace kiln::target
