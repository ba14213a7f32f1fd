// Tile kernels whose authors give a gradient.
#include "differentiate/differences.h"
#include "kiln/dsl/kernel.h"

namespace kiln::graph::test {
namespace {

namespace lang = dsl::lang;

// out = x·sin(y)
Result<dsl::Kernel> wave() {
  return lang::kernel("wave", {"x", "y", "out", "n", "BLOCK=8"},
                      [](lang::Ptr<const lang::f64> x, lang::Ptr<const lang::f64> y, lang::Ptr<lang::f64> out,
                         lang::i32 n, lang::Const BLOCK) {
                        lang::grid(lang::cdiv(n, BLOCK));
                        const lang::Value at = lang::program_id(0) * BLOCK;
                        const lang::Value a = lang::tile(x, {n}).load({at}, {BLOCK});
                        const lang::Value b = lang::tile(y, {n}).load({at}, {BLOCK});
                        lang::tile(out, {n}).store({at}, a * lang::sin(b));
                      })
      .ir();
}

Tensor wave_of(const Tensor& x, const Tensor& y) {
  return kernel(wave(),
                {KernelArgument::in(x), KernelArgument::in(y), KernelArgument::out(f64, {case_n()}),
                 KernelArgument::number(case_n())},
                [](const Tensors& in, const Tensors&, const Tensors& g) {
                  return Tensors{g[0] * sin(in[1]), g[0] * in[0] * cos(in[1])};
                })[0];
}

}  // namespace

std::vector<GradientCase> kernel_cases() {
  const std::vector<InputSpec> two = {input("x", f64, {case_n()}), input("y", f64, {case_n()})};
  return {
      {"kernel", two, [](Tensors x) { return Tensors{wave_of(x[0], x[1])}; }},
      {"kernel among ops", two, [](Tensors x) { return Tensors{exp(wave_of(x[0] * x[1], x[1])) * x[0]}; }},
      {"kernel of a kernel", two, [](Tensors x) { return Tensors{wave_of(wave_of(x[0], x[1]), x[0])}; }},
      {"kernel in a loop", two,
       [](Tensors x) {
         return loop(3, {x[0]}, {},
                     [&](Tensors carried, Tensors) { return LoopStep{{wave_of(carried[0], x[1]) + carried[0]}, {}}; })
             .carried;
       }},
  };
}

}  // namespace kiln::graph::test
