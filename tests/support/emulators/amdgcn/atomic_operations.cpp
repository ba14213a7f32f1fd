// What atomics make of the value in memory; see atomic_operations.h.
#include "atomic_operations.h"

#include <algorithm>

#include "float_math.h"

namespace kiln::amdgcn_emulator {
namespace {

template <class B, class F>
uint64_t update(const Wave& wave, std::byte* at, const uint64_t* data) {
  B old;
  std::memcpy(&old, at, sizeof old);
  B value;
  if constexpr (std::is_invocable_v<F, const Wave&, B, B>)
    value = F{}(wave, old, static_cast<B>(data[0]));
  else
    value = F{}(old, static_cast<B>(data[0]));
  std::memcpy(at, &value, sizeof value);
  return old;
}

template <class B>
uint64_t compare_and_swap(const Wave&, std::byte* at, const uint64_t* data) {
  B old;
  std::memcpy(&old, at, sizeof old);
  if (old == static_cast<B>(data[1])) {
    B value = static_cast<B>(data[0]);
    std::memcpy(at, &value, sizeof value);
  }
  return old;
}

// Compared as numbers: zeros are equal, NaNs are not.
template <class B, class V>
uint64_t compare_and_swap_float(const Wave&, std::byte* at, const uint64_t* data) {
  B old;
  std::memcpy(&old, at, sizeof old);
  const B value = static_cast<B>(data[0]);
  if (std::bit_cast<V>(old) == std::bit_cast<V>(static_cast<B>(data[1]))) std::memcpy(at, &value, sizeof value);
  return old;
}

// Operations of LDS with two operands.
template <class B, class F>
uint64_t update_by_two(const Wave&, std::byte* at, const uint64_t* data) {
  B old;
  std::memcpy(&old, at, sizeof old);
  const B value = F{}(old, static_cast<B>(data[0]), static_cast<B>(data[1]));
  std::memcpy(at, &value, sizeof value);
  return old;
}

// Each dword of the operand whose highest bit is set is stored, without that bit.
uint64_t exchange_marked(uint64_t old, uint64_t data) {
  uint64_t value = old;
  for (unsigned shift : {0u, 32u})
    if (data >> (shift + 31) & 1)
      value = (value & ~(uint64_t{0xffffffff} << shift)) | (data >> shift & 0x7fffffff) << shift;
  return value;
}

template <class B, class F>
void add(std::vector<AtomicForm>& forms, F, std::initializer_list<const char*> names) {
  for (const char* name : names) forms.push_back({name, sizeof(B), 1, update<B, F>});
}

template <class B, class F>
void add_two(std::vector<AtomicForm>& forms, F, const char* name) {
  forms.push_back({name, sizeof(B), 2, update_by_two<B, F>});
}

template <class B>
void add_integer(std::vector<AtomicForm>& forms, std::array<std::initializer_list<const char*>, 12> names) {
  using S = std::make_signed_t<B>;
  auto least = [](B a, B b) { return static_cast<B>(std::min(static_cast<S>(a), static_cast<S>(b))); };
  auto most = [](B a, B b) { return static_cast<B>(std::max(static_cast<S>(a), static_cast<S>(b))); };
  add<B>(forms, [](B, B b) { return b; }, names[0]);
  add<B>(forms, [](B a, B b) { return a + b; }, names[1]);
  add<B>(forms, [](B a, B b) { return a - b; }, names[2]);
  add<B>(forms, least, names[3]);
  add<B>(forms, [](B a, B b) { return std::min(a, b); }, names[4]);
  add<B>(forms, most, names[5]);
  add<B>(forms, [](B a, B b) { return std::max(a, b); }, names[6]);
  add<B>(forms, [](B a, B b) { return a & b; }, names[7]);
  add<B>(forms, [](B a, B b) { return a | b; }, names[8]);
  add<B>(forms, [](B a, B b) { return a ^ b; }, names[9]);
  add<B>(forms, [](B a, B b) { return a >= b ? B{0} : a + 1; }, names[10]);
  add<B>(forms, [](B a, B b) { return a == 0 || a > b ? b : a - 1; }, names[11]);
}

float as_float(uint32_t bits) { return std::bit_cast<float>(bits); }
uint32_t as_bits(float value) { return std::bit_cast<uint32_t>(value); }
double as_double(uint64_t bits) { return std::bit_cast<double>(bits); }
uint64_t as_bits(double value) { return std::bit_cast<uint64_t>(value); }

uint32_t add_halves(uint32_t a, uint32_t b) {
  uint32_t low = float_to_half(half_to_float(a) + half_to_float(b));
  return low | float_to_half(half_to_float(a >> 16) + half_to_float(b >> 16)) << 16;
}
uint32_t add_brains(uint32_t a, uint32_t b) {
  uint32_t low = float_to_brain(brain_to_float(a & 0xffff) + brain_to_float(b & 0xffff));
  return low | float_to_brain(brain_to_float(a >> 16) + brain_to_float(b >> 16)) << 16;
}

void add_float(std::vector<AtomicForm>& forms) {
  using W = const Wave&;
  add<uint32_t>(forms, [](uint32_t a, uint32_t b) { return as_bits(as_float(a) + as_float(b)); }, {"add_f32"});
  add<uint64_t>(forms, [](uint64_t a, uint64_t b) { return as_bits(as_double(a) + as_double(b)); }, {"add_f64"});
  add<uint32_t>(forms, [](uint32_t a, uint32_t b) { return add_halves(a, b); }, {"pk_add_f16"});
  add<uint32_t>(forms, [](uint32_t a, uint32_t b) { return add_brains(a, b); }, {"pk_add_bf16"});
  auto least = [](W w, uint32_t a, uint32_t b) {
    return as_bits(minimum_number(as_float(a), as_float(b), w.mode & kModeIeee));
  };
  auto most = [](W w, uint32_t a, uint32_t b) {
    return as_bits(maximum_number(as_float(a), as_float(b), w.mode & kModeIeee));
  };
  auto least64 = [](W w, uint64_t a, uint64_t b) {
    return as_bits(minimum_number(as_double(a), as_double(b), w.mode & kModeIeee));
  };
  auto most64 = [](W w, uint64_t a, uint64_t b) {
    return as_bits(maximum_number(as_double(a), as_double(b), w.mode & kModeIeee));
  };
  add<uint32_t>(forms, least, {"fmin", "min_f32", "min_num_f32"});
  add<uint32_t>(forms, most, {"fmax", "max_f32", "max_num_f32"});
  add<uint64_t>(forms, least64, {"fmin_x2", "min_f64", "min_num_f64"});
  add<uint64_t>(forms, most64, {"fmax_x2", "max_f64", "max_num_f64"});
}

void add_lds_only(std::vector<AtomicForm>& forms) {
  add<uint32_t>(forms, [](uint32_t a, uint32_t b) { return b - a; }, {"rsub_u32"});
  add<uint64_t>(forms, [](uint64_t a, uint64_t b) { return b - a; }, {"rsub_u64"});
  add_two<uint32_t>(forms, [](uint32_t a, uint32_t mask, uint32_t b) { return (a & ~mask) | b; }, "mskor_b32");
  add_two<uint64_t>(forms, [](uint64_t a, uint64_t mask, uint64_t b) { return (a & ~mask) | b; }, "mskor_b64");
  add_two<uint32_t>(forms, [](uint32_t a, uint32_t b, uint32_t c) { return a >= b ? a - b : a + c; }, "wrap_b32");
  add<uint64_t>(forms, [](uint64_t a, uint64_t b) { return exchange_marked(a, b); }, {"condxchg32_b64"});
}

std::vector<AtomicForm> all_forms() {
  std::vector<AtomicForm> forms;
  add_integer<uint32_t>(forms, {{{"swap", "swap_b32"},
                                 {"add", "add_u32"},
                                 {"sub", "sub_u32"},
                                 {"smin", "min_i32"},
                                 {"umin", "min_u32"},
                                 {"smax", "max_i32"},
                                 {"umax", "max_u32"},
                                 {"and", "and_b32"},
                                 {"or", "or_b32"},
                                 {"xor", "xor_b32"},
                                 {"inc", "inc_u32"},
                                 {"dec", "dec_u32"}}});
  add_integer<uint64_t>(forms, {{{"swap_x2", "swap_b64"},
                                 {"add_x2", "add_u64"},
                                 {"sub_x2", "sub_u64"},
                                 {"smin_x2", "min_i64"},
                                 {"umin_x2", "min_u64"},
                                 {"smax_x2", "max_i64"},
                                 {"umax_x2", "max_u64"},
                                 {"and_x2", "and_b64"},
                                 {"or_x2", "or_b64"},
                                 {"xor_x2", "xor_b64"},
                                 {"inc_x2", "inc_u64"},
                                 {"dec_x2", "dec_u64"}}});
  add_float(forms);
  for (const char* name : {"cmpswap", "cmpswap_b32"}) forms.push_back({name, 4, 2, compare_and_swap<uint32_t>});
  for (const char* name : {"cmpswap_x2", "cmpswap_b64"}) forms.push_back({name, 8, 2, compare_and_swap<uint64_t>});
  forms.push_back({"cmpswap_f32", 4, 2, compare_and_swap_float<uint32_t, float>});
  forms.push_back({"cmpswap_f64", 8, 2, compare_and_swap_float<uint64_t, double>});
  add<uint32_t>(forms, [](uint32_t a, uint32_t b) { return a > b ? a - b : 0; }, {"csub", "csub_u32", "sub_clamp_u32"});
  add_lds_only(forms);
  return forms;
}

}  // namespace

const std::vector<AtomicForm>& atomic_forms() {
  static const std::vector<AtomicForm> forms = all_forms();
  return forms;
}

// LDS spells some operations in its own way.
static std::string without_lds_spelling(std::string name) {
  if (size_t at = name.find("_rtn"); at != std::string::npos) name.erase(at, 4);
  for (auto [lds, memory] : {std::pair("wrxchg_", "swap_"), std::pair("storexchg_", "swap_"),
                             std::pair("cmpstore_", "cmpswap_"), std::pair("cmpst_", "cmpswap_")})
    if (name.starts_with(lds)) return memory + name.substr(std::strlen(lds));
  return name;
}

bool is_aligned(Wave& wave, uint64_t address, unsigned bytes, unsigned lane) {
  if (address % bytes == 0) return true;
  wave.fail("misaligned atomic of " + std::to_string(bytes) + " bytes in lane " + std::to_string(lane));
  return false;
}

const AtomicForm* find_atomic(std::string name) {
  if (name.starts_with("ds_"))
    name = without_lds_spelling(name.substr(3));
  else if (size_t at = name.find("_atomic_"); at != std::string::npos)
    name.erase(0, at + 8);
  else
    return nullptr;
  for (const AtomicForm& form : atomic_forms())
    if (name == form.name) return &form;
  return nullptr;
}

}  // namespace kiln::amdgcn_emulator
