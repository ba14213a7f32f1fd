// AArch64: NEON, and the scalable vectors where a CPU has them (Arm Architecture Reference Manual).
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;

bool has_atomics(const Processor& p) { return p.cpu.atomics; }
bool has_f16(const Processor& p) { return p.cpu.f16_arithmetic; }
bool multiplies_bytes(const Processor& p) { return p.cpu.bytes == DotUnit::kInstruction; }
bool multiplies_blocks_of_bytes(const Processor& p) { return p.cpu.bytes == DotUnit::kTile; }
bool multiplies_bf16(const Processor& p) { return p.cpu.bf16 == DotUnit::kInstruction; }
bool multiplies_blocks_of_bf16(const Processor& p) { return p.cpu.bf16 == DotUnit::kTile; }
bool is_scalable(const Processor& p) { return p.cpu.sve_bits > 0; }

constexpr const char* kForNan = "comparisons and choices, for NaN";

constexpr Rule kRules[] = {
    {"add", "ints", nullptr, kNative, "add v*", ""},
    {"sub", "ints", nullptr, kNative, "sub v*", ""},
    {"neg", "ints", nullptr, kNative, "neg v*", ""},
    {"add", "f32 f64", nullptr, kNative, "fadd v*", ""},
    {"sub", "f32 f64", nullptr, kNative, "fsub v*", ""},
    {"mul", "f32 f64", nullptr, kNative, "fmul v*", ""},
    {"div", "f32 f64", nullptr, kNative, "fdiv v*", ""},
    {"add", "f16", has_f16, kNative, "fadd v*.8h*", ""},
    {"sub", "f16", has_f16, kNative, "fsub v*.8h*", ""},
    {"mul", "f16", has_f16, kNative, "fmul v*.8h*", ""},
    {"div", "f16", has_f16, kNative, "fdiv v*.8h*", ""},
    {"mul", "i8 i16 i32 u8 u16 u32", nullptr, kNative, "mul v*", ""},
    {"mul", "i64 u64", is_scalable, kNative, "mul z*", ""},
    {"mul", "i64 u64", nullptr, kEmulated, "mul x*", "element by element"},
    {"div rem", "i8 i16 i32 u8 u16 u32", nullptr, kEmulated, "fdiv v*", "a quotient of floats"},
    {"div rem", "i64", nullptr, kEmulated, "sdiv x*", "element by element"},
    {"div rem", "u64", nullptr, kEmulated, "udiv x*", "element by element"},
    {"mulhi", "i8 i16 i32", is_scalable, kNative, "smulh z*", ""},
    {"mulhi", "u8 u16 u32", is_scalable, kNative, "umulh z*", ""},
    {"mulhi", "i8 i16 i32", nullptr, kEmulated, "smull v*", "products of twice the width"},
    {"mulhi", "u8 u16 u32", nullptr, kEmulated, "umull v*", "products of twice the width"},
    {"mulhi", "i64 u64", nullptr, kEmulated, "umull v*", "products of 32 bits"},
    {"fma", "f32 f64", nullptr, kNative, "fmla v*", ""},
    {"min", "i8 i16 i32", nullptr, kNative, "smin v*", ""},
    {"max", "i8 i16 i32", nullptr, kNative, "smax v*", ""},
    {"min", "u8 u16 u32", nullptr, kNative, "umin v*", ""},
    {"max", "u8 u16 u32", nullptr, kNative, "umax v*", ""},
    {"min", "i64", is_scalable, kNative, "smin z*", ""},
    {"max", "i64", is_scalable, kNative, "smax z*", ""},
    {"min", "u64", is_scalable, kNative, "umin z*", ""},
    {"max", "u64", is_scalable, kNative, "umax z*", ""},
    {"min max", "i64 u64", nullptr, kEmulated, "cmgt v*|cmhi v*", "a comparison and a choice"},
    {"min max", "f32 f64", nullptr, kEmulated, "fcmgt v*", kForNan},
    {"min max", "f16", has_f16, kEmulated, "fcmgt v*.8h*", kForNan},
    {"neg", "f32 f64", nullptr, kNative, "fneg v*", ""},
    {"abs", "signed", nullptr, kNative, "abs v*", ""},
    {"abs", "f32 f64", nullptr, kNative, "fabs v*", ""},

    {"and", "ints", nullptr, kNative, "and v*", ""},
    {"or", "ints", nullptr, kNative, "orr v*", ""},
    {"xor", "ints", nullptr, kNative, "eor v*", ""},
    {"shl", "ints", nullptr, kNative, "ushl v*", ""},
    {"shr", "signed", nullptr, kNative, "sshl v*", ""},
    {"shr", "unsigned", nullptr, kNative, "ushl v*", ""},
    {"cmp", "signed", nullptr, kNative, "cmgt v*", ""},
    {"cmp", "unsigned", nullptr, kNative, "cmhi v*", ""},
    {"cmp", "f32 f64", nullptr, kNative, "fcmgt v*", ""},
    {"cmp", "f16", has_f16, kNative, "fcmgt v*.8h*", ""},

    {"math.sqrt", "f32 f64", nullptr, kNative, "fsqrt v*", ""},
    {"math.floor", "f32 f64", nullptr, kNative, "frintm v*", ""},
    {"math.ceil", "f32 f64", nullptr, kNative, "frintp v*", ""},
    {"math.round", "f32 f64", nullptr, kNative, "frintn v*", ""},
    {"math.trunc", "f32 f64", nullptr, kNative, "frintz v*", ""},
    {"math.floor", "f16", has_f16, kNative, "frintm v*.8h*", ""},
    {"math.ceil", "f16", has_f16, kNative, "frintp v*.8h*", ""},
    {"math.round", "f16", has_f16, kNative, "frintn v*.8h*", ""},
    {"math.trunc", "f16", has_f16, kNative, "frintz v*.8h*", ""},
    {"math.isnan", "f16", has_f16, kNative, "fcmeq v*.8h*", ""},
    {"math.copysign", "f32 f64", nullptr, kNative, "bif v*|bit v*|bsl v*", ""},
    {"math.copysign", "small", nullptr, kEmulated, "", "bits by integer ops"},
    {"math.rsqrt", "f32 f64", nullptr, kEmulated, "fdiv v*&fsqrt v*", "a quotient and a root"},
    {"math.hypot", "f32", nullptr, kEmulated, "fsqrt v*.2d*", "a root of f64"},
    {"math.hypot", "f64", nullptr, kEmulated, "fsqrt v*.2d*", "a root of what is scaled"},

    {"cast.f32", "i32", nullptr, kNative, "scvtf v*.4s*", ""},
    {"cast.f32", "u32", nullptr, kNative, "ucvtf v*.4s*", ""},
    {"cast.f64", "i64", nullptr, kNative, "scvtf v*.2d*", ""},
    {"cast.f64", "u64", nullptr, kNative, "ucvtf v*.2d*", ""},
    {"cast.f32", "i8 i16", nullptr, kEmulated, "scvtf v*", "through i32"},
    {"cast.f32", "u8 u16", nullptr, kEmulated, "ucvtf v*", "through i32"},
    {"cast.f64", "i8 i16 i32", nullptr, kEmulated, "scvtf v*.2d*", "through i64"},
    {"cast.f64", "u8 u16 u32", nullptr, kEmulated, "ucvtf v*.2d*", "through i64"},
    {"cast.f32", "i64", nullptr, kEmulated, "scvtf s*", "element by element"},
    {"cast.f32", "u64", nullptr, kEmulated, "ucvtf s*", "element by element"},
    {"cast.i1", "f32 f64", nullptr, kNative, "fcmeq v*", ""},
    {"cast.i1", "f16", has_f16, kNative, "fcmeq v*.8h*", ""},
    {"cast.i32", "f32", nullptr, kNative, "fcvtzs v*.4s*", ""},
    {"cast.u32", "f32", nullptr, kNative, "fcvtzu v*.4s*", ""},
    {"cast.i64", "f64", nullptr, kNative, "fcvtzs v*.2d*", ""},
    {"cast.u64", "f64", nullptr, kNative, "fcvtzu v*.2d*", ""},
    {"cast.i64", "f32", nullptr, kEmulated, "fcvtzs v*.2d*", "through f64"},
    {"cast.u64", "f32", nullptr, kEmulated, "fcvtzu v*.2d*", "through f64"},
    {"cast.i8,i16", "f32", nullptr, kEmulated, "fcvtzs v*.4s*", "through i32, saturated"},
    {"cast.u8,u16", "f32", nullptr, kEmulated, "fcvtzu v*.4s*", "through u32, saturated"},
    {"cast.i8,i16,i32", "f64", nullptr, kEmulated, "fcvtzs v*.2d*", "through i64, saturated before"},
    {"cast.u8,u16,u32", "f64", nullptr, kEmulated, "fcvtz* v*.2d*", "through i64, saturated before"},
    {"cast.f64", "f32", nullptr, kNative, "fcvtl v*", ""},
    {"cast.f32", "f64", nullptr, kNative, "fcvtn v*", ""},
    {"cast.f32", "f16", nullptr, kNative, "fcvtl v*", ""},
    {"cast.f16", "f32", nullptr, kNative, "fcvtn v*", ""},

    {"dot.ieee", "f32 f64", nullptr, kNative, "fmla v*", ""},
    {"dot.tf32", "f32", nullptr, kEmulated, "fmla v*", "operands rounded by integer ops"},
    {"dot.tf32x3,bf16x3", "f32", nullptr, kNative, "fmla v*", "as ieee"},
    {"dot.ieee", "i8", multiplies_blocks_of_bytes, kNative, "smmla v*", ""},
    {"dot.ieee", "u8", multiplies_blocks_of_bytes, kNative, "ummla v*", ""},
    {"dot.ieee", "i8", multiplies_bytes, kNative, "sdot v*", ""},
    {"dot.ieee", "u8", multiplies_bytes, kNative, "udot v*", ""},
    {"dot.ieee", "i8 u8", nullptr, kEmulated, "mla v*", "through i32"},
    {"dot.ieee", "bf16", multiplies_blocks_of_bf16, kNative, "bfmmla v*", ""},
    {"dot.ieee", "f8", multiplies_blocks_of_bf16, kEmulated, "bfmmla v*", "through bf16"},
    {"dot.ieee", "bf16", multiplies_bf16, kNative, "bfdot v*", ""},
    {"dot.ieee", "f8", multiplies_bf16, kEmulated, "bfdot v*", "through bf16"},
    {"dot.ieee", "small", nullptr, kEmulated, "fmla v*", "through f32"},
    {"dot_scaled", "all", nullptr, kEmulated, "fmla v*", "scaled, through f64"},

    {"atomic_rmw.add", "ints", has_atomics, kNative, "ldadd*", ""},
    {"atomic_rmw.min", "signed", has_atomics, kNative, "ldsmin*", ""},
    {"atomic_rmw.max", "signed", has_atomics, kNative, "ldsmax*", ""},
    {"atomic_rmw.min", "unsigned", has_atomics, kNative, "ldumin*", ""},
    {"atomic_rmw.max", "unsigned", has_atomics, kNative, "ldumax*", ""},
    {"atomic_rmw.and", "ints", has_atomics, kNative, "ldclr*", ""},
    {"atomic_rmw.or", "ints", has_atomics, kNative, "ldset*", ""},
    {"atomic_rmw.xor", "ints", has_atomics, kNative, "ldeor*", ""},
    {"atomic_rmw.xchg", "all", has_atomics, kNative, "swp*", ""},
    {"atomic_cas", "all", has_atomics, kNative, "cas*", ""},
    {"atomic_rmw", "all", has_atomics, kEmulated, "cas*", "compare-and-swap loop"},
    {"atomic_rmw atomic_cas", "all", nullptr, kEmulated, "ldaxr*&stlxr*", "a loop of exclusive accesses"},
};

}  // namespace

std::span<const Rule> aarch64_rules() { return kRules; }

}  // namespace kiln::target
