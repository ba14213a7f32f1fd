// x86-64. Names of instructions are without the `v` of AVX (Intel's Software Developer's Manual, volume 2).
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;

bool has_avx2(const Processor& p) { return p.cpu.avx2; }
bool has_avx10_2(const Processor& p) { return p.cpu.avx10_2; }
bool has_avx512(const Processor& p) { return p.cpu.avx512; }
bool has_fma(const Processor& p) { return p.cpu.fma; }
bool converts_f16(const Processor& p) { return p.cpu.f16_conversions; }
bool multiplies_bytes(const Processor& p) { return p.cpu.bytes == DotUnit::kInstruction; }
bool multiplies_tiles_of_bytes(const Processor& p) { return p.cpu.bytes == DotUnit::kTile; }
bool multiplies_bf16(const Processor& p) { return p.cpu.bf16 == DotUnit::kInstruction; }
bool multiplies_tiles_of_bf16(const Processor& p) { return p.cpu.bf16 == DotUnit::kTile; }
bool multiplies_tiles_of_f8(const Processor& p) { return multiplies_tiles_of_bf16(p) && p.cpu.tiles_of_f8; }
bool multiplies_tiles_of_f16(const Processor& p) { return multiplies_tiles_of_bf16(p) && p.cpu.tiles_of_f16; }
bool multiplies_tiles_of_tf32(const Processor& p) { return multiplies_tiles_of_bf16(p) && p.cpu.tiles_of_tf32; }

constexpr const char* kCompareAndChoose = "a comparison and a choice";
constexpr const char* kSaturated = "comparisons saturate";

constexpr Rule kRules[] = {
    {"add", "ints", nullptr, kNative, "padd*", ""},
    {"sub neg", "ints", nullptr, kNative, "psub*", ""},
    {"add", "f32 f64", nullptr, kNative, "addp*", ""},
    {"sub", "f32 f64", nullptr, kNative, "subp*", ""},
    {"mul", "i16 u16", nullptr, kNative, "pmullw", ""},
    {"mul", "i32 u32", nullptr, kNative, "pmulld", ""},
    {"mul", "i64 u64", has_avx512, kNative, "pmullq", ""},
    {"mul", "i64 u64", nullptr, kEmulated, "pmuludq", "products of 32 bits"},
    {"mul", "i8 u8", nullptr, kEmulated, "pmullw", "products of 16 bits"},
    {"mul", "f32 f64", nullptr, kNative, "mulp*", ""},
    {"div", "f32 f64", nullptr, kNative, "divp*", ""},
    {"div rem", "i8 i16 u8 u16", nullptr, kEmulated, "divps", "a quotient of f32"},
    {"div rem", "i32 u32", nullptr, kEmulated, "divpd", "a quotient of f64"},
    {"div rem", "i64", nullptr, kEmulated, "idivq", "element by element"},
    {"div rem", "u64", nullptr, kEmulated, "divq", "element by element"},
    {"mulhi", "i16", nullptr, kNative, "pmulhw", ""},
    {"mulhi", "u16", nullptr, kNative, "pmulhuw", ""},
    {"mulhi", "i8 u8", nullptr, kEmulated, "pmulhw|pmullw", "products of 16 bits"},
    {"mulhi", "i32", nullptr, kEmulated, "pmuldq", "products of 64 bits"},
    {"mulhi", "u32", nullptr, kEmulated, "pmuludq", "products of 64 bits"},
    {"mulhi", "i64 u64", nullptr, kEmulated, "pmuludq", "products of 32 bits"},
    {"fma", "f32 f64", has_fma, kNative, "fmadd*", ""},
    {"fma", "f32 f64", nullptr, kEmulated, "callq", "a function of the C library, element by element"},
    {"min", "i8 i16 i32 u8 u16 u32", nullptr, kNative, "pmin*", ""},
    {"max", "i8 i16 i32 u8 u16 u32", nullptr, kNative, "pmax*", ""},
    {"min", "i64 u64", has_avx512, kNative, "pmin*", ""},
    {"max", "i64 u64", has_avx512, kNative, "pmax*", ""},
    {"min max", "i64 u64", nullptr, kEmulated, "pcmpgtq", kCompareAndChoose},
    {"min max", "f32 f64", has_avx10_2, kNative, "minmaxp*", ""},
    {"min max", "f32 f64", nullptr, kEmulated, "cmp*p*", "comparisons and choices, for NaN"},
    {"neg", "f32 f64", nullptr, kNative, "xorp*|pxor*", ""},
    {"abs", "i8 i16 i32", nullptr, kNative, "pabs*", ""},
    {"abs", "i64", has_avx512, kNative, "pabsq", ""},
    {"abs", "i64", nullptr, kEmulated, "psubq", "a negation and a choice"},
    {"abs", "f32 f64", nullptr, kNative, "andp*|pand*", ""},

    {"and", "ints", nullptr, kNative, "andp*|pand*", ""},
    {"or", "ints", nullptr, kNative, "orp*|por*", ""},
    {"xor", "ints", nullptr, kNative, "xorp*|pxor*", ""},
    {"shl shr", "i32 u32", has_avx2, kNative, "psllvd|psrlvd|psravd", ""},
    {"shl", "i64 u64", has_avx2, kNative, "psllvq", ""},
    {"shr", "u64", has_avx2, kNative, "psrlvq", ""},
    {"shr", "i64", has_avx512, kNative, "psravq", ""},
    {"shr", "i64", has_avx2, kEmulated, "psrlvq", "a shift without sign, and the sign"},
    {"shl shr", "i16 u16", has_avx512, kNative, "psllvw|psrlvw|psravw", ""},
    {"shl shr", "i16 u16", has_avx2, kEmulated, "psllvd|psrlvd|psravd", "shifts of 32 bits"},
    {"shl shr", "ints", nullptr, kEmulated, "", "shifts by one distance for all elements, or products"},

    {"cmp", "signed", nullptr, kNative, "pcmpgt*", ""},
    {"cmp", "unsigned", has_avx512, kNative, "pcmpltu*", ""},
    {"cmp", "unsigned", nullptr, kEmulated, "pcmpeq*|pcmpgt*", "a comparison of others, with signs or for equality"},
    {"cmp", "f32 f64", nullptr, kNative, "cmp*p*", ""},

    {"math.sqrt", "f32 f64", nullptr, kNative, "sqrtp*", ""},
    {"math.floor,ceil,round,trunc", "f32 f64", nullptr, kNative, "roundp*|rndscalep*", ""},
    {"math.floor,ceil,round,trunc", "f16", converts_f16, kEmulated, "roundp*|rndscalep*", "through f32"},
    {"math.copysign", "f32 f64", has_avx512, kNative, "pternlog*", ""},
    {"math.copysign", "floats", nullptr, kEmulated, "", "bits by integer ops"},
    {"math.rsqrt", "f32 f64", has_avx512, kEmulated, "rsqrt14p*", "an estimate, refined"},
    {"math.rsqrt", "f32 f64", nullptr, kEmulated, "divp*&sqrtp*", "a quotient and a root"},
    {"math.hypot", "f32", nullptr, kEmulated, "sqrtpd", "a root of f64"},
    {"math.hypot", "f64", nullptr, kEmulated, "sqrtpd", "a root of what is scaled"},

    {"cast.f32", "i32", nullptr, kNative, "cvtdq2ps", ""},
    {"cast.f64", "i32", nullptr, kNative, "cvtdq2pd", ""},
    {"cast.f32", "u32", has_avx512, kNative, "cvtudq2ps", ""},
    {"cast.f64", "u32", has_avx512, kNative, "cvtudq2pd", ""},
    {"cast.f32", "i64 u64", has_avx512, kNative, "cvtqq2ps|cvtuqq2ps", ""},
    {"cast.f64", "i64 u64", has_avx512, kNative, "cvtqq2pd|cvtuqq2pd", ""},
    {"cast.f32", "i8 i16 u8 u16", nullptr, kEmulated, "cvtdq2ps", "through i32"},
    {"cast.f64", "i8 i16 u8 u16", nullptr, kEmulated, "cvtdq2pd", "through i32"},
    {"cast.f32", "u32", nullptr, kEmulated, "", "two halves, which are added up"},
    {"cast.f64", "u32", nullptr, kEmulated, "", "bits by integer ops, and a difference"},
    {"cast.f32", "i64 u64", nullptr, kEmulated, "cvtsi2ss*", "element by element"},
    {"cast.f64", "i64", nullptr, kEmulated, "cvtsi2sd*", "element by element"},
    {"cast.f64", "u64", nullptr, kEmulated, "", "two halves, which are added up"},
    {"cast.i1", "f32 f64", nullptr, kNative, "cmp*p*", ""},
    {"cast.i32,u32,i64,u64", "f32", has_avx10_2, kNative, "cvttps2*s", ""},
    {"cast.i64,u64", "f64", has_avx10_2, kNative, "cvttpd2*s", ""},
    {"cast.i8,i16,i32,u8,u16,u32", "f32 f64", nullptr, kEmulated, "cvttp*", kSaturated},
    {"cast.i64,u64", "f32 f64", has_avx512, kEmulated, "cvttp*qq", kSaturated},
    {"cast.i64,u64", "f32 f64", nullptr, kEmulated, "cvtts*2*", "element by element, saturated"},
    {"cast.f64", "f32", nullptr, kNative, "cvtps2pd", ""},
    {"cast.f32", "f64", nullptr, kNative, "cvtpd2ps*", ""},
    {"cast.f32", "f16", converts_f16, kNative, "cvtph2ps*", ""},
    {"cast.f16", "f32", converts_f16, kNative, "cvtps2ph*", ""},
    {"cast.f32", "f16", nullptr, kEmulated, "", "bits by integer ops"},
    {"cast.f16", "f32", nullptr, kEmulated, "", "bits by integer ops"},

    {"dot.ieee", "f32", has_fma, kNative, "fmadd231ps", ""},
    {"dot.ieee", "f64", has_fma, kNative, "fmadd231pd", ""},
    {"dot.tf32", "f32", multiplies_tiles_of_tf32, kNative, "tmmultf32ps", ""},
    {"dot.tf32", "f32", has_fma, kEmulated, "fmadd231ps", "operands rounded by integer ops"},
    {"dot.tf32x3,bf16x3", "f32", has_fma, kNative, "fmadd231ps", "as ieee"},
    {"dot.ieee", "f64", nullptr, kEmulated, "mulpd&addpd", "products and sums"},
    {"dot", "f32", nullptr, kEmulated, "mulps&addps", "products and sums"},
    {"dot.ieee", "i8", multiplies_tiles_of_bytes, kNative, "tdpbssd", ""},
    {"dot.ieee", "u8", multiplies_tiles_of_bytes, kNative, "tdpbuud", ""},
    {"dot.ieee", "i8 u8", multiplies_bytes, kNative, "pdpb*", ""},
    {"dot.ieee", "i8 u8", nullptr, kEmulated, "pmaddwd", "through i16"},
    {"dot.ieee", "bf16", multiplies_tiles_of_bf16, kNative, "tdpbf16ps", ""},
    {"dot.ieee", "f8e4m3", multiplies_tiles_of_f8, kNative, "tdphf8ps", ""},
    {"dot.ieee", "f8e5m2", multiplies_tiles_of_f8, kNative, "tdpbf8ps", ""},
    {"dot.ieee", "f16", multiplies_tiles_of_f16, kNative, "tdpfp16ps", ""},
    {"dot.ieee", "f8", multiplies_tiles_of_bf16, kEmulated, "tdpbf16ps", "through bf16"},
    {"dot.ieee", "bf16", multiplies_bf16, kNative, "dpbf16ps", ""},
    {"dot.ieee", "f8", multiplies_bf16, kEmulated, "dpbf16ps", "through bf16"},
    {"dot.ieee", "small", has_fma, kEmulated, "fmadd231ps", "through f32"},
    {"dot.ieee", "small", nullptr, kEmulated, "mulps&addps", "through f32, products and sums"},
    {"dot_scaled", "all", has_fma, kEmulated, "fmadd231pd", "scaled, through f64"},
    {"dot_scaled", "all", nullptr, kEmulated, "mulpd&addpd", "scaled, through f64, products and sums"},

    {"atomic_rmw.add", "ints", nullptr, kNative, "lock xadd*", ""},
    {"atomic_rmw.xchg", "all", nullptr, kNative, "xchg*", ""},
    {"atomic_cas", "all", nullptr, kNative, "lock cmpxchg*", ""},
    {"atomic_rmw", "all", nullptr, kEmulated, "lock cmpxchg*", "compare-and-swap loop"},
};

}  // namespace

std::span<const Rule> x86_rules() { return kRules; }

}  // namespace kiln::target
