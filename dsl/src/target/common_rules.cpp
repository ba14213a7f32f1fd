// What holds on all targets: before the rules of a family what no processor makes a difference to, behind them what is
// so where it has nothing better.
#include "target/rules.h"

namespace kiln::target {
namespace {

using enum Support;

bool is_cpu(const Processor& processor) { return !is_gpu(processor.family); }
bool has_no_short_operands(const Processor& processor) {
  return processor.amd != nullptr && processor.amd->major >= 11;
}
bool copies_boxes(const Processor& processor) {
  return processor.nvidia != nullptr && processor.nvidia->units.bulk_copies;
}

constexpr Rule kCommon[] = {
    // Elements are made, moved, chosen or handed on, whatever they are.
    {"program_id num_programs constant arange splat broadcast expand_dims reshape permute join split cat slice gather "
     "bitcast select addptr load store for while if yield",
     "all", nullptr, kNative, "", ""},
    {"assume require", "all", nullptr, kNative, "", ""},  // nothing is left of them
    {"assert print", "all", nullptr, kNative, "", ""},
    {"reduce.custom scan.custom", "all", nullptr, kNative, "", ""},  // as the ops of its region

    {"inline_asm", "all", is_cpu, kRefused, "", "the CPU backend does not compile this"},
    {"inline_asm", "i1 i8 i16 u8 u16 small", has_no_short_operands, kNative, "", "`pack` must fill words of 32 bits"},
    {"inline_asm", "all", nullptr, kNative, "", ""},

    {"descriptor load_tile store_tile gather_rows", "all", copies_boxes, kEmulated, "",
     "pointers, masks, loads and stores; bulk copies in loops of products"},
    {"descriptor load_tile store_tile gather_rows", "all", nullptr, kEmulated, "", "pointers, masks, loads and stores"},
    {"reduce_tile", "all", nullptr, kEmulated, "", "an atomic_rmw of each element"},

    {"sort topk", "all", nullptr, kEmulated, "", "comparisons and exchanges in a fixed order"},
    {"histogram", "all", nullptr, kEmulated, "", "a count in memory, element by element"},
    {"reduce.argmin,argmax", "all", nullptr, kEmulated, "", "comparisons and choices, of values and places"},
    {"philox", "all", nullptr, kEmulated, "", "ten rounds of products of 32 bits"},

    {"abs", "unsigned", nullptr, kNative, "", ""},  // as it is
    {"and or xor cmp", "i1", nullptr, kNative, "", ""},
    {"neg abs math.signbit", "small", nullptr, kNative, "", ""},  // a bit

    {"cast", "i1", nullptr, kNative, "", ""},
    {"cast.i1,i8,i16,i32,i64,u8,u16,u32,u64", "ints", nullptr, kNative, "", ""},
    {"cast.f16", "f16", nullptr, kNative, "", ""},
    {"cast.bf16", "bf16", nullptr, kNative, "", ""},
    {"cast.f32", "f32", nullptr, kNative, "", ""},
    {"cast.f64", "f64", nullptr, kNative, "", ""},
    {"cast.f8e4m3", "f8e4m3", nullptr, kNative, "", ""},
    {"cast.f8e5m2", "f8e5m2", nullptr, kNative, "", ""},
};

constexpr Rule kGeneral[] = {
    {"add sub mul div rem fma min max cmp math", "small", nullptr, kEmulated, "", "through f32"},
    {"math.isnan,isinf,signbit", "f32 f64", nullptr, kNative, "", ""},
    {"math", "f32 f64", nullptr, kEmulated, "", "polynomials, after the argument is reduced"},
    {"rem", "f32 f64", nullptr, kEmulated, "", "a loop on the significands, in ints"},

    {"cast.f32", "bf16", nullptr, kEmulated, "", "a shift of its bits"},
    {"cast.bf16", "f32", nullptr, kEmulated, "", "rounded by integer ops"},
    {"cast.f8e4m3,f8e5m2", "f32", nullptr, kEmulated, "", "bits by integer ops"},
    {"cast.f32", "f8", nullptr, kEmulated, "", "bits by integer ops, through f16"},
    {"cast.f16,bf16,f8e4m3,f8e5m2", "f64", nullptr, kEmulated, "", "through f32, rounded to odd"},
    {"cast.f16,bf16,f8e4m3,f8e5m2", "i8 i16 u8 u16", nullptr, kEmulated, "", "through f32"},
    {"cast.f16,bf16,f8e4m3,f8e5m2", "i32 i64 u32 u64", nullptr, kEmulated, "", "through f64, rounded once"},
    {"cast", "small", nullptr, kEmulated, "", "through f32"},
};

}  // namespace

std::span<const Rule> common_rules() { return kCommon; }
std::span<const Rule> general_rules() { return kGeneral; }

}  // namespace kiln::target
