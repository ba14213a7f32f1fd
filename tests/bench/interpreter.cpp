// Speed of the reference interpreter on chains of elementwise ops between a load and a store, in tile elements a
// second.
//   bench-interpreter
#include "kiln/dsl/interpreter.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/text.h"

namespace {

using namespace kiln::dsl;

constexpr int64_t kBlock = 1024, kPrograms = 256;

struct Chain {
  const char* name;
  const char* element;
  // Ops on %x of type TILE, the last of which defines %z; INTS, BITS and FLOATS are the tiles of i32, i1 and f32.
  const char* ops;
};

constexpr Chain kChains[] = {
    {"add mul fma cmp select", "f32",
     "%a = add %x, %x : TILE\n%b = mul %a, %x : TILE\n%c = fma %b, %a, %x : TILE\n%d = sub %c, %b : TILE\n"
     "%m = cmp %d, %x {pred = lt} : BITS\n%e = select %m, %d, %x : TILE\n%f = max %e, %a : TILE\n"
     "%g = neg %f : TILE\n%h = abs %g : TILE\n%z = add %h, %c : TILE\n"},
    {"exp cast i32 and back", "f32",
     "%a = mul %x, %x : TILE\n%b = math %a {fn = exp} : TILE\n%c = add %b, %x : TILE\n%i = cast %c {to = i32} : INTS\n"
     "%j = add %i, %i : INTS\n%k = cast %j {to = f32} : TILE\n%d = fma %k, %x, %a : TILE\n%m = cmp %d, %x {pred = gt} "
     ": BITS\n%e = select %m, %d, %b : TILE\n%z = mul %e, %e : TILE\n"},
    {"add mul fma cmp select", "f16",
     "%a = add %x, %x : TILE\n%b = mul %a, %x : TILE\n%c = fma %b, %a, %x : TILE\n%d = sub %c, %b : TILE\n"
     "%m = cmp %d, %x {pred = lt} : BITS\n%e = select %m, %d, %x : TILE\n%f = max %e, %a : TILE\n"
     "%g = neg %f : TILE\n%h = abs %g : TILE\n%z = add %h, %c : TILE\n"},
    {"f32 between casts", "bf16",
     "%a = cast %x {to = f32} : FLOATS\n%b = mul %a, %a : FLOATS\n%c = fma %b, %a, %a : FLOATS\n%d = sub %c, %b : "
     "FLOATS\n%e = math %d {fn = exp2} : FLOATS\n%f = max %e, %a : FLOATS\n%g = add %f, %b : FLOATS\n%h = neg %g : "
     "FLOATS\n%i = min %h, %c : FLOATS\n%z = cast %i {to = bf16} : TILE\n"},
    {"add mul shift and cmp select", "i32",
     "%r7 = and %x, %r : TILE\n%a = add %x, %r7 : TILE\n%b = xor %a, %x : TILE\n%c = sub %b, %r : TILE\n%t = shr %c, "
     "%r7 "
     ": TILE\n%d = or %t, %x : TILE\n%m = cmp %d, %x {pred = lt} : BITS\n%e = select %m, %d, %x : TILE\n%f = max %e, "
     "%a "
     ": TILE\n%z = min %f, %c : TILE\n"},
};

std::string replaced(std::string text, const std::string& word, const std::string& by) {
  for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at))
    text.replace(at, word.size(), by);
  return text;
}

std::string kernel_text(const Chain& chain) {
  const std::string n = std::to_string(kBlock), element = chain.element;
  auto tile = [&](const std::string& of) { return "tile<[" + n + "], " + of + ">"; };
  std::string text = "kernel chain(%in: ptr<" + element + "> readonly, %out: ptr<" + element +
                     ">, %n: i32) {\n%pid = program_id {axis = 0} : i32\n%block = constant {value = " + n +
                     ", type = i32} : i32\n%start = mul %pid, %block : i32\n%s = splat %start {shape = [" + n +
                     "]} : INTS\n%r = arange {start = 0, end = " + n +
                     "} : INTS\n%o = add %s, %r : INTS\n%ns = splat %n "
                     "{shape = [" +
                     n + "]} : INTS\n%in_range = cmp %o, %ns {pred = lt} : BITS\n";
  for (const char* name : {"in", "out"}) {
    const std::string p = std::string("%") + name, type = " : " + tile("ptr<" + element + ">") + "\n";
    text += p + "_s = splat " + p + " {shape = [" + n + "]}" + type + p + "_p = addptr " + p + "_s, %o" + type;
  }
  text += "%x = load %in_p, %in_range : TILE\n" + std::string(chain.ops) + "store %out_p, %z, %in_range\n}\n";
  for (const auto& [word, by] :
       {std::pair<const char*, std::string>{"TILE", element}, {"INTS", "i32"}, {"BITS", "i1"}, {"FLOATS", "f32"}}) {
    text = replaced(text, word, tile(by));
  }
  return text;
}

double elements_per_second(const Kernel& kernel) {
  std::vector<uint32_t> in(kBlock * kPrograms), out(in.size());
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint32_t>(0x3f003f00 + i % 64 * 0x10001);  // 0.5 … 1
  const auto extent = static_cast<int64_t>(in.size());
  const Argument arguments[] = {{in.data(), extent, 0}, {out.data(), extent, 0}, {nullptr, 0, in.size()}};
  std::vector<double> rates;
  for (int round = 0; round < 11; ++round) {
    const std::clock_t start = std::clock();
    if (auto done = interpret(kernel, arguments, {kPrograms, 1, 1}); !done) {
      std::fprintf(stderr, "%s\n", done.error().message.c_str());
      return 0;
    }
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    rates.push_back(static_cast<double>(extent) / seconds);
  }
  std::nth_element(rates.begin(), rates.begin() + 5, rates.end());
  return rates[5];
}

}  // namespace

int main() {
  for (const Chain& chain : kChains) {
    auto kernel = parse(kernel_text(chain), "chain.kiln");
    if (!kernel) return std::fprintf(stderr, "%s\n", kernel.error().message.c_str()), 1;
    auto concrete = instantiate(*kernel, {}, {});
    if (!concrete) return std::fprintf(stderr, "%s\n", concrete.error().message.c_str()), 1;
    std::printf("interpreter,%s,%s,kiln,tile elements/s,%.3g\n", chain.name, chain.element,
                elements_per_second(*concrete));
  }
}
