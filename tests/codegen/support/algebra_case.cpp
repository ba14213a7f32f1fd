#include "algebra_case.h"

#include <cstring>
#include <random>

#include "compile_once.h"
#include "sampled.h"

namespace kiln::test {

using dsl::ElementType;

std::vector<ElementType> all_element_types() {
  std::vector<ElementType> out;
  for (int i = 0; i < dsl::kElementTypeCount; ++i) out.push_back(static_cast<ElementType>(i));
  return out;
}

std::vector<int64_t> extents_for(ElementType type) {
  constexpr int64_t kExtents[] = {1, 2, 3, 7, 31, 33, 64, 65, 127, 130, 1000};
  const auto first = static_cast<size_t>(type);
  if (type == ElementType::kF32) return {std::begin(kExtents), std::end(kExtents)};
  std::vector<int64_t> out;
  for (size_t i = first % 4; i < std::size(kExtents); i += 4) out.push_back(kExtents[i]);
  return out;
}

TextKernel::Shape shape_for(ElementType type) {
  const TextKernel::Shape shapes[] = {{1, 40}, {40, 1}, {2, 3, 1}, {3, 2, 2, 5}, {2, 1, 3, 2, 2}};
  return shapes[static_cast<size_t>(type) % std::size(shapes)];
}

std::vector<std::string> targets_for(ElementType type) {
  if (type == ElementType::kF32) return all_targets();
  std::vector<std::string> out = sampled(cpu_targets(), 1);
  if (is_sampled(2)) out.emplace_back("gpu");
  return out;
}

std::string type_name(ElementType type) { return std::string(dsl::info(type).name); }

int64_t elements_of(const TextKernel::Shape& shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return count;
}

TextKernel::Shape without_axis(TextKernel::Shape shape, size_t axis) {
  shape.erase(shape.begin() + static_cast<int64_t>(axis));
  return shape;
}

TextKernel::Shape with_extent(TextKernel::Shape shape, size_t axis, int64_t extent) {
  shape[axis] = extent;
  return shape;
}

TestArgument tied_buffer(ElementType type, int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  const bool is_signed = dsl::info(type).is_signed || dsl::is_float(type);
  const double floats[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1.5, -1.5, 2.0, 0.25, -3.0};
  TestArgument out;
  out.is_buffer = true;
  const auto bytes = static_cast<size_t>(dsl::info(type).bytes);
  out.buffer.resize(static_cast<size_t>(count) * bytes);
  for (int64_t i = 0; i < count; ++i) {
    const double small = static_cast<double>(random() % 5) - (is_signed ? 2 : 0);
    const double value = dsl::is_float(type) ? floats[random() % std::size(floats)] : small;
    uint64_t bits = type == ElementType::kI1 ? random() % 2
                    : dsl::is_float(type)    ? dsl::bits_from_double(type, value)
                                             : static_cast<uint64_t>(static_cast<int64_t>(value));
    std::memcpy(out.buffer.data() + static_cast<size_t>(i) * bytes, &bits, bytes);
  }
  return out;
}

AlgebraCase::AlgebraCase(Shape shape, std::vector<Input> inputs, std::vector<int64_t> bounds)
    : shape_(std::move(shape)), inputs_(std::move(inputs)), bounds_(std::move(bounds)) {}

void AlgebraCase::apply(const std::string& expression, const std::vector<Result>& results) {
  std::string unique;
  for (char symbol : expression) {
    unique += symbol == '$' ? "_" + std::to_string(applications_.size()) : std::string(1, symbol);
  }
  applications_.push_back({unique, results});
}

// A few to a kernel: what a compiler does to one basic block takes more than twice as long for two ops as for one. The
// default run has every second kernel: which half is the same for all data of a test's shape, so that what is compiled
// is so for all of them, and another one for other element types and shapes.
void AlgebraCase::check(const std::vector<std::string>& targets) {
  constexpr size_t kMost = 4;
  const std::span<const Application> all(applications_);
  const size_t first = first_part(name_of_test() + TextKernel::list(shape_) + TextKernel::list(bounds_), 2);
  for (size_t at = 0; at < all.size(); at += kMost) {
    if (!runs_all_cases() && all.size() > kMost && at / kMost % 2 != first) continue;
    check_some(all.subspan(at, std::min(kMost, all.size() - at)), targets);
  }
}

void AlgebraCase::check_some(std::span<const Application> applications, const std::vector<std::string>& targets) {
  std::string params;
  auto param = [&](const std::string& name, const std::string& type) {
    params += (params.empty() ? "" : ", ") + name + ": " + type;
  };
  std::vector<TestArgument> arguments;
  std::vector<std::string> bound_names;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    param("%p" + std::to_string(i), "ptr<" + type_name(inputs_[i].type) + ">");
    arguments.push_back(inputs_[i].data);
  }
  for (size_t i = 0; i < bounds_.size(); ++i) {
    bound_names.push_back("%n" + std::to_string(i));
    param(bound_names.back(), "i32");
    arguments.push_back(int_scalar(bounds_[i]));
  }
  const size_t first_result = arguments.size();
  std::vector<std::pair<const Result*, const std::string*>> results;
  for (const Application& application : applications) {
    for (const Result& result : application.results) {
      param("%o" + std::to_string(results.size()), "ptr<" + type_name(result.type) + ">");
      const int64_t count = elements_of(result.shape);
      arguments.push_back(random_buffer(result.type, static_cast<size_t>(count), 99));
      results.emplace_back(&result, &application.expression);
    }
  }
  TextKernel kernel(params);
  const std::string mask = bounds_.empty() ? "" : kernel.mask(shape_, bound_names);
  for (size_t i = 0; i < inputs_.size(); ++i) {
    std::string load = "load " + kernel.pointers("%p" + std::to_string(i), shape_);
    if (!inputs_[i].other.empty())
      load += ", " + mask + ", " + kernel.fill(inputs_[i].other, type_name(inputs_[i].type), shape_);
    kernel.line("%x" + std::to_string(i) + " = " + load);
  }
  size_t next = 0;
  for (const Application& application : applications) {
    std::string names;
    for (size_t i = 0; i < application.results.size(); ++i) names += (i ? ", %r" : "%r") + std::to_string(next + i);
    kernel.line(names + " = " + application.expression);
    for (const Result& result : application.results) {
      const std::string number = std::to_string(next++);
      const std::string place = result.shape.empty() ? "%o" + number : kernel.pointers("%o" + number, result.shape);
      kernel.line("store " + place + ", %r" + number);
    }
  }
  const dsl::Kernel parsed = parse_kernel(kernel.text());
  ASSERT_FALSE(parsed.params.empty());
  std::vector<TestArgument> expected = arguments;
  auto interpreted = run_interpreted(parsed, {}, {}, expected);
  ASSERT_TRUE(interpreted.ok()) << interpreted.error().message << "\n" << kernel.text();
  for (const std::string& target : targets) {
    auto artifact = compile_once(parsed, {}, {}, target);
    if (is_refused(artifact)) continue;
    ASSERT_TRUE(artifact.ok()) << target << ": " << artifact.error().message << "\n" << kernel.text();
    std::vector<TestArgument> actual = arguments;
    auto ran = run_compiled(parsed, *artifact, actual);
    ASSERT_TRUE(ran.ok()) << target << ": " << ran.error().message;
    for (size_t i = 0; i < results.size(); ++i) {
      const auto& [result, expression] = results[i];
      std::string explanation;
      const auto& got = actual[first_result + i].buffer;
      const auto& wanted = expected[first_result + i].buffer;
      EXPECT_EQ(count_differences(result->type, got, wanted, result->match, explanation), 0u)
          << *expression << " of " << type_name(inputs_[0].type) << TextKernel::list(shape_) << " bounds "
          << TextKernel::list(bounds_) << ", result " << i << ", target " << (target.empty() ? "native" : target)
          << "\n"
          << explanation;
    }
  }
}

}  // namespace kiln::test
