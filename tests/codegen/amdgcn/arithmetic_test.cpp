// What single AMD processors compute in ways of their own: f8 by instructions on gfx12, products without matrix units
// on gfx906.
#include "differential.h"

namespace kiln::test {
namespace {

using dsl::ElementType;

TEST(AmdArithmetic, ConvertsF8ByInstructions) {
  for (const char* type : {"f8e4m3", "f8e5m2"}) {
    TextKernel kernel(std::string("%x: ptr<f32>, %y: ptr<") + type + ">, %z: ptr<f32>");
    const std::string x = kernel.op("load " + kernel.pointers("%x", {512}));
    const std::string small = kernel.op("cast " + x + " {to = " + type + "}");
    kernel.line("store " + kernel.pointers("%y", {512}) + ", " + small);
    const std::string wide = kernel.op("cast " + small + " {to = f32}");
    kernel.line("store " + kernel.pointers("%z", {512}) + ", " + wide);
    // Around the largest number, between the smallest, and others.
    TestArgument values = random_buffer(ElementType::kF32, 512, 1);
    std::vector<float> numbers = values_of<float>(values);
    for (size_t i = 0; i < 64; ++i) {
      numbers[2 * i] = 400 + 2 * static_cast<float>(i);
      numbers[2 * i + 1] = 0x1p-11F * static_cast<float>(i) * 0.3F;
      numbers[128 + i] = -57000 - 100 * static_cast<float>(i);
      numbers[192 + i] = 0x1p-18F * static_cast<float>(i) * 0.7F;
    }
    Trial run;
    run.arguments = {buffer(numbers),
                     random_buffer(type == std::string("f8e4m3") ? ElementType::kF8E4M3 : ElementType::kF8E5M2, 512, 2),
                     random_buffer(ElementType::kF32, 512, 3)};
    run.targets = {"amd:gfx1200", "amd:gfx1250"};
    expect_same(kernel.text(), run);
  }
}

TEST(AmdArithmetic, MultipliesNarrowNumbersWithoutMatrixUnits) {
  struct Types {
    const char *a, *sum;
    ElementType element, sum_element;
  };
  for (const Types& types : {Types{"f16", "f32", ElementType::kF16, ElementType::kF32},
                             Types{"bf16", "f32", ElementType::kBF16, ElementType::kF32},
                             Types{"f8e4m3", "f32", ElementType::kF8E4M3, ElementType::kF32},
                             Types{"i8", "i32", ElementType::kI8, ElementType::kI32}}) {
    const std::string pointer = std::string("ptr<") + types.a + ">";
    TextKernel kernel("%a: " + pointer + ", %b: " + pointer + ", %c: ptr<" + types.sum + ">");
    const std::string a = kernel.op("load " + kernel.pointers("%a", {32, 16}));
    const std::string b = kernel.op("load " + kernel.pointers("%b", {16, 32}));
    const std::string place = kernel.pointers("%c", {32, 32}), c = kernel.op("load " + place);
    kernel.line("store " + place + ", " + kernel.op("dot " + a + ", " + b + ", " + c));
    Trial run;
    run.arguments = {random_buffer(types.element, 32 * 16, 1, false), random_buffer(types.element, 16 * 32, 2, false),
                     random_buffer(types.sum_element, 32 * 32, 3, false)};
    run.match = {1e-4, 1e-4};
    run.targets = {"amd:gfx906"};
    expect_same(kernel.text(), run);
  }
}

// LLVM 22 moved constants of 64 bits as if they had 32.
TEST(AmdArithmetic, WideConstantsAreWhole) {
  TextKernel kernel("%x: ptr<f64> readonly, %y: ptr<f64>");
  const std::string x = kernel.op("load %x");
  const std::string power = kernel.op("math " + x + ", " + x + " {fn = pow}");
  kernel.line("store %y, " + power);
  Trial run;
  run.arguments = {buffer(std::vector<double>{8.0}), random_buffer(ElementType::kF64, 1, 1)};
  run.match = {1e-14, 0};
  run.targets = {"amd:gfx906", "amd:gfx90a", "amd:gfx942", "amd:gfx950", "amd:gfx1100", "amd:gfx1200", "amd:gfx1250"};
  expect_same(kernel.text(), run);
}

}  // namespace
}  // namespace kiln::test
