#include "tiles.h"

#include <sstream>

#include "reference/cast.h"
#include "reference/formats.h"
#include "reference/inputs.h"
#include "reference/tolerance.h"

namespace kiln::oracle {
namespace {

// Pointers to all elements in order, of rank 1; then the tile has to be reshaped.
std::string pointers(const std::string& p, Type type, int64_t count) {
  const std::string n = std::to_string(count);
  return p + "i = arange {start = 0, end = " + n + "}\n" + p + "s = splat " + p + " {shape = [" + n + "]}\n" + p +
         "q = addptr " + p + "s, " + p + "i : tile<[" + n + "], ptr<" + type_name(type) + ">>\n";
}

std::string load_text(const std::string& number, const Input& input) {
  const std::string p = "%p" + number, x = "%x" + number;
  const Shape& shape = input.tile.shape;
  if (shape.empty()) return x + " = load " + p + "\n";
  const std::string list_text = list(shape);
  return pointers(p, input.type, reference::count(shape)) + p + "v = load " + p + "q\n" + x + " = reshape " + p +
         "v {shape = " + list_text + "}\n";
}

std::string store_text(const std::string& number, const Output& output) {
  const std::string o = "%o" + number, z = "%z" + number;
  if (output.shape.empty()) return "store " + o + ", " + z + "\n";
  const int64_t count = reference::count(output.shape);
  return pointers(o, output.type, count) + o + "v = reshape " + z + " {shape = [" + std::to_string(count) + "]}\n" +
         "store " + o + "q, " + o + "v\n";
}

// Runs an instantiated kernel whose parameters are the inputs and then the outputs.
Ran run_buffers(const dsl::Kernel& kernel, const std::vector<Input>& inputs, const std::vector<Output>& outputs,
                const dsl::InterpretOptions& options) {
  std::vector<Buffer> buffers;
  for (const Input& input : inputs) buffers.push_back({input.type, input.tile.data});
  for (const Output& output : outputs) {
    buffers.push_back({output.type, Column(static_cast<size_t>(reference::count(output.shape)))});
  }
  Ran ran{{}, try_run(kernel, buffers, {1, 1, 1}, options)};
  for (size_t i = 0; i < outputs.size(); ++i) {
    ran.out.push_back({outputs[i].shape, std::move(buffers[inputs.size() + i].elements)});
  }
  return ran;
}

// An instantiated kernel, or the error's message.
Result<dsl::Kernel> concrete(Result<dsl::Kernel> kernel, bool debug) {
  if (!kernel) return kernel;
  auto valid = dsl::verify(*kernel);
  if (!valid) return valid.error();
  kernel->options.debug = debug;
  return dsl::instantiate(*kernel, {}, {});
}

// The session is neither copied nor moved, and takes its names from an initializer list only: hence the cases.
dsl::detail::TraceSession session(const std::vector<dsl::detail::ParamSpec>& specs) {
  const auto loc = std::source_location::current();
  switch (specs.size()) {
    case 1:
      return {"k", {"a"}, specs, loc};
    case 2:
      return {"k", {"a", "b"}, specs, loc};
    case 3:
      return {"k", {"a", "b", "c"}, specs, loc};
    case 4:
      return {"k", {"a", "b", "c", "d"}, specs, loc};
    case 5:
      return {"k", {"a", "b", "c", "d", "e"}, specs, loc};
    case 6:
      return {"k", {"a", "b", "c", "d", "e", "f"}, specs, loc};
    default:
      return {"k", {"a", "b", "c", "d", "e", "f", "g"}, specs, loc};
  }
}

dsl::lang::Shape lang_shape(const Shape& shape) { return {shape.begin(), shape.end()}; }

dsl::lang::Value load_all(const dsl::lang::Value& pointer, const Shape& shape) {
  if (shape.empty()) return dsl::lang::load(pointer);
  const auto lanes = dsl::lang::arange(0, reference::count(shape));
  return dsl::lang::reshape(dsl::lang::load(pointer + lanes), lang_shape(shape));
}

void store_all(const dsl::lang::Value& pointer, const Shape& shape, const dsl::lang::Value& value) {
  if (shape.empty()) return dsl::lang::store(pointer, value);
  const int64_t count = reference::count(shape);
  dsl::lang::store(pointer + dsl::lang::arange(0, count), dsl::lang::reshape(value, {count}));
}

}  // namespace

std::string list(const std::vector<int64_t>& numbers) {
  std::string out = "[";
  for (const int64_t number : numbers) out += (out.size() > 1 ? ", " : "") + std::to_string(number);
  return out + "]";
}

std::string hex(const std::vector<Bits>& bits, size_t limit) {
  std::ostringstream out;
  out << std::hex;
  for (size_t i = 0; i < std::min(limit, bits.size()); ++i) out << (i == 0 ? "" : " ") << bits[i];
  if (bits.size() > limit) out << " …";
  return out.str();
}

std::vector<Bits> bits_of(Type type, const std::vector<long double>& values) {
  return reference::elements_of(type, values);
}

Input random_input(Type type, const Shape& shape, uint64_t seed, bool with_specials) {
  return {type, {shape, reference::random_elements(type, reference::count(shape), seed, with_specials)}};
}

void without_f8_infinities(Type type, std::vector<Bits>& elements) {
  if (type != Type::kF8E5M2) return;
  const Bits infinity = reference::format(type).infinity();
  for (Bits& element : elements) {
    if ((element & (reference::format(type).sign_bit() - 1)) == infinity) --element;
  }
}

Ran run_tiles(const std::string& lines, const std::vector<Input>& inputs, const std::vector<Output>& outputs,
              const TileOptions& options) {
  std::string params, before, after;
  for (size_t i = 0; i < inputs.size(); ++i) {
    params += "%p" + std::to_string(i) + ": ptr<" + type_name(inputs[i].type) + ">, ";
    before += load_text(std::to_string(i), inputs[i]);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    params += "%o" + std::to_string(i) + ": ptr<" + type_name(outputs[i].type) + ">, ";
    after += store_text(std::to_string(i), outputs[i]);
  }
  if (!params.empty()) params.resize(params.size() - 2);
  const std::string text = "kernel k(" + params + ") {\n" + before + lines + "\n" + after + "}\n";
  const auto kernel = concrete(dsl::parse(text, "k.kiln"), options.debug);
  if (!kernel) return {{}, kernel.error().message};
  return run_buffers(*kernel, inputs, outputs, options.interpret);
}

Tile run_tile(const std::string& lines, const std::vector<Input>& inputs, const Output& output) {
  Ran ran = run_tiles(lines, inputs, {output});
  EXPECT_EQ(ran.error, "") << lines;
  return ran.out.empty() ? Tile{} : ran.out[0];
}

std::vector<Tile> run_traced(const Traced& function, const std::vector<Input>& inputs,
                             const std::vector<Output>& outputs) {
  std::vector<dsl::detail::ParamSpec> specs;
  for (const Input& input : inputs) specs.push_back({false, {element(input.type), true, {}}, true});
  for (const Output& output : outputs) specs.push_back({false, {element(output.type), true, {}}, false});
  auto trace = session(specs);
  std::vector<dsl::lang::Value> values;
  // The type comes from the specs: the template's argument is of no account.
  const auto pointer = [&](size_t i) { return trace.param<dsl::lang::Ptr<dsl::lang::f32>>(i); };
  for (size_t i = 0; i < inputs.size(); ++i) values.push_back(load_all(pointer(i), inputs[i].tile.shape));
  const std::vector<dsl::lang::Value> results = function(values);
  for (size_t i = 0; i < outputs.size(); ++i) {
    store_all(pointer(inputs.size() + i), outputs[i].shape, results.at(i));
  }
  const auto kernel = concrete(trace.finish(), false);
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  if (!kernel) return std::vector<Tile>(outputs.size());
  Ran ran = run_buffers(*kernel, inputs, outputs, quick());
  EXPECT_EQ(ran.error, "");
  return std::move(ran.out);
}

std::string run_kernel(const std::string& text, const std::vector<dsl::Argument>& arguments, Grid grid,
                       const dsl::InterpretOptions& options, bool debug) {
  const auto kernel = concrete(dsl::parse(text, "k.kiln"), debug);
  if (!kernel) return kernel.error().message;
  const auto done = dsl::interpret(*kernel, arguments, grid, options);
  return done ? "" : done.error().message;
}

void expect_same(Type type, const Tile& out, const Tile& expected, const std::string& what, bool any_zero) {
  ASSERT_EQ(out.shape, expected.shape) << what;
  for (size_t i = 0; i < expected.data.size(); ++i) {
    ASSERT_TRUE(reference::same(type, out.data.at(i), expected.data[i], any_zero))
        << what << " (" << reference::name(type) << "), element " << i << " of " << list(expected.shape) << ": "
        << hex({out.data[i]}) << ", not " << hex({expected.data[i]});
  }
}

void expect_close(Type type, const Tile& out, const reference::Array<long double>& expected, const std::string& what) {
  ASSERT_EQ(out.shape, expected.shape) << what;
  for (const size_t i : reference::mismatches(type, out.data, expected.data)) {
    FAIL() << what << " (" << reference::name(type) << "), element " << i << " of " << list(expected.shape) << ": "
           << reference::real_value(type, out.data.at(i)) << ", not " << expected.data[i];
  }
}

reference::Array<long double> reals(const Input& input) {
  return {input.tile.shape, reference::real_values(input.type, input.tile.data)};
}

}  // namespace kiln::oracle
