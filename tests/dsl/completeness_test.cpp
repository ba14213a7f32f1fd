// Every op has every consumer: for each row of the op table a C++ function that traces it, and what is traced goes
// through the verifier, text and parser, CBOR, the canonical order, instantiation and the interpreter. Documentation
// and examples are in ops_test.cpp. A new op fails here until it has a line below.
#include <functional>
#include <map>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/walk.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

using namespace kiln::dsl::lang;  // NOLINT(google-build-using-namespace)

using Values = std::vector<Operand>;

// What a kernel has to work with: a buffer, a float, an int that is 8 when it runs, and tiles.
struct Input {
  lang::Value pointer, scalar, n;
  lang::Value floats() const { return splat(scalar, {16}); }
  lang::Value ints() const { return arange(0, 16); }
  lang::Value pointers() const { return pointer + arange(0, 16); }
  lang::Value mask() const { return ints() < n; }
};
using Trace = std::function<Values(const Input&)>;

Values both(const std::pair<lang::Value, lang::Value>& pair) { return {pair.first, pair.second}; }

Descriptor view(const Input& in, int64_t rows = 4) {
  return descriptor(in.pointer, {in.n, in.n}, {in.n, 1}, {rows, 8});
}

const std::map<std::string, Trace>& shapes() {
  static const std::map<std::string, Trace> table = {
      {"program_id", [](const Input&) -> Values { return {program_id(0)}; }},
      {"num_programs", [](const Input&) -> Values { return {num_programs(0)}; }},
      {"constant", [](const Input& in) -> Values { return {in.n + 1}; }},
      {"arange", [](const Input&) -> Values { return {arange(0, 5)}; }},
      {"splat", [](const Input& in) -> Values { return {in.floats()}; }},
      {"broadcast", [](const Input& in) -> Values { return {broadcast_to(splat(in.scalar, {1, 4}), {3, 4})}; }},
      {"expand_dims", [](const Input& in) -> Values { return {expand_dims(in.floats(), 0)}; }},
      {"reshape", [](const Input& in) -> Values { return {reshape(in.floats(), {4, 4})}; }},
      {"permute", [](const Input& in) -> Values { return {permute(reshape(in.floats(), {2, 8}), {1, 0})}; }},
      {"join", [](const Input& in) -> Values { return {join(in.floats(), in.floats())}; }},
      {"split", [](const Input& in) -> Values { return both(split(reshape(in.floats(), {8, 2}))); }},
      {"cat", [](const Input& in) -> Values { return {cat(in.floats(), in.floats(), 0)}; }},
      {"slice", [](const Input& in) -> Values { return {slice(in.floats(), 0, 3, 7)}; }},
      {"gather", [](const Input& in) -> Values { return {gather(in.floats(), arange(3, 6), 0)}; }},
  };
  return table;
}

const std::map<std::string, Trace>& lanes() {
  static const std::map<std::string, Trace> table = {
      {"add", [](const Input& in) -> Values { return {in.floats() + in.scalar}; }},
      {"sub", [](const Input& in) -> Values { return {in.floats() - in.scalar}; }},
      {"mul", [](const Input& in) -> Values { return {in.floats() * in.scalar}; }},
      {"div", [](const Input& in) -> Values { return {in.floats() / in.scalar}; }},
      {"rem", [](const Input& in) -> Values { return {in.floats() % in.scalar}; }},
      {"mulhi", [](const Input& in) -> Values { return {mulhi(in.ints(), in.n)}; }},
      {"fma", [](const Input& in) -> Values { return {fma(in.floats(), in.scalar, in.scalar)}; }},
      {"min", [](const Input& in) -> Values { return {min(in.ints(), in.n)}; }},
      {"max", [](const Input& in) -> Values { return {max(in.ints(), in.n)}; }},
      {"neg", [](const Input& in) -> Values { return {-in.floats()}; }},
      {"abs", [](const Input& in) -> Values { return {abs(in.floats())}; }},
      {"and", [](const Input& in) -> Values { return {in.ints() & in.n}; }},
      {"or", [](const Input& in) -> Values { return {in.ints() | in.n}; }},
      {"xor", [](const Input& in) -> Values { return {in.ints() ^ in.n}; }},
      {"shl", [](const Input& in) -> Values { return {in.ints() << 2}; }},
      {"shr", [](const Input& in) -> Values { return {in.ints() >> 2}; }},
      {"cmp", [](const Input& in) -> Values { return {in.mask()}; }},
      {"select", [](const Input& in) -> Values { return {where(in.mask(), in.ints(), in.n)}; }},
      {"math", [](const Input& in) -> Values { return {pow(in.floats(), in.scalar)}; }},
      {"cast", [](const Input& in) -> Values { return {cast(in.floats(), bf16_t)}; }},
      {"bitcast", [](const Input& in) -> Values { return {bitcast(in.floats(), i32_t)}; }},
      {"philox",
       [](const Input& in) -> Values {
         auto words = philox(42, in.ints());
         return {words.begin(), words.end()};
       }},
      {"inline_asm",
       [](const Input& in) -> Values { return {inline_asm("ex2.approx.f32 $0, $1;", "=f,f", {in.floats()}, f32_t)}; }},
  };
  return table;
}

const std::map<std::string, Trace>& memory() {
  static const std::map<std::string, Trace> table = {
      {"addptr", [](const Input& in) -> Values { return {load(in.pointers())}; }},
      {"load", [](const Input& in) -> Values { return {load(in.pointers(), {.mask = in.mask(), .other = 1})}; }},
      {"store",
       [](const Input& in) -> Values {
         store(in.pointers(), in.floats(), {.mask = in.mask()});
         return {};
       }},
      {"atomic_rmw", [](const Input& in) -> Values { return {atomic_add(in.pointers(), in.floats())}; }},
      {"atomic_cas", [](const Input& in) -> Values { return {atomic_cas(in.pointers(), in.floats(), in.scalar)}; }},
      {"descriptor", [](const Input& in) -> Values { return {view(in).load({0, 0})}; }},
      {"load_tile", [](const Input& in) -> Values { return {view(in).load({-1, in.n})}; }},
      {"store_tile",
       [](const Input& in) -> Values {
         view(in).store({6, 4}, splat(in.scalar, {4, 8}));
         return {};
       }},
      {"reduce_tile",
       [](const Input& in) -> Values {
         view(in).reduce(AtomicKind::kMax, {6, 4}, splat(in.scalar, {4, 8}));
         return {};
       }},
      {"gather_rows", [](const Input& in) -> Values { return {view(in, 1).gather_rows(arange(-1, 9), 2)}; }},
  };
  return table;
}

const std::map<std::string, Trace>& algebra() {
  static const std::map<std::string, Trace> table = {
      {"dot", [](const Input& in) -> Values { return {dot(splat(in.scalar, {3, 5}), splat(in.scalar, {5, 2}))}; }},
      {"dot_scaled",
       [](const Input& in) -> Values {
         const lang::Value byte = cast(in.n, u8_t);
         return {dot_scaled(splat(byte, {3, 32}), splat(byte, {3, 2}), splat(byte, {32, 2}), splat(byte, {2, 2}))};
       }},
      {"reduce",
       [](const Input& in) -> Values { return {reduce(in.ints(), 0, [](auto l, auto r) { return l * r; })}; }},
      {"scan", [](const Input& in) -> Values { return {cumsum(in.ints(), 0, {.reverse = true})}; }},
      {"sort", [](const Input& in) -> Values { return both(sort(-in.ints(), in.floats(), 0)); }},
      {"topk", [](const Input& in) -> Values { return both(topk(in.ints(), 3, 0)); }},
      {"histogram", [](const Input& in) -> Values { return {histogram(in.ints(), 4)}; }},
  };
  return table;
}

const std::map<std::string, Trace>& control() {
  static const Trace loop = [](const Input& in) -> Values {
    Var sum = in.scalar;
    for (lang::Value i : range(in.n)) sum += cast(i, f32_t);
    return {sum};
  };
  static const std::map<std::string, Trace> table = {
      {"for", loop},
      {"yield", loop},
      {"while",
       [](const Input& in) -> Values {
         Var n = in.n;
         while_([&] { return n > 1; }, [&] { n = n / 2; });
         return {n};
       }},
      {"if",
       [](const Input& in) -> Values {
         return {if_(in.n > 3, [&] { return in.scalar; }, [&] { return -in.scalar; })};
       }},
      {"assume",
       [](const Input& in) -> Values {
         assume(in.n, {.multiple_of = 8, .low = 0, .high = 100});
         return {};
       }},
      {"require",
       [](const Input&) -> Values {
         require(Const(4) > Const(3), "four is more than three");
         return {};
       }},
      {"assert",
       [](const Input& in) -> Values {
         check(in.n > 0, "n is positive");
         return {};
       }},
      {"print",
       [](const Input& in) -> Values {
         print("ints", {in.ints()});
         return {};
       }},
  };
  return table;
}

const Trace* trace_of(const std::string& op) {
  for (const auto* table : {&shapes(), &lanes(), &memory(), &algebra(), &control()}) {
    if (auto found = table->find(op); found != table->end()) return &found->second;
  }
  return nullptr;
}

bool contains(const Region& region, OpCode code) {
  return any_op(region, [&](const Op& op) { return op.code == code; });
}

// Printing the results keeps them alive in the canonical order.
Result<Kernel> traced_kernel(const Trace& trace) {
  return lang::kernel("k", {"p", "x", "n"},
                      [&](Ptr<lang::f32> p, lang::f32 x, lang::i32 n) {
                        const Values results = trace({p, x, n});
                        if (!results.empty()) print("results", results);
                      })
      .debug(true)
      .ir();
}

Result<void> run(const Kernel& kernel) {
  std::vector<float> buffer(256, 1.5f);
  const float x = 2.5f;
  const dsl::Argument arguments[] = {
      {buffer.data(), 256, 0}, {nullptr, 0, std::bit_cast<uint32_t>(x)}, {nullptr, 0, 8}};
  return interpret(kernel, arguments, {1, 1, 1});
}

TEST(Completeness, EveryOpHasABuilderFunction) {
  for (const OpInfo& op : op_table()) {
    const Trace* trace = trace_of(op.name);
    ASSERT_NE(trace, nullptr) << op.name;
    auto kernel = traced_kernel(*trace);
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    EXPECT_TRUE(contains(kernel->body, op.code)) << op.name;
  }
}

TEST(Completeness, EveryOpGoesThroughEveryForm) {
  for (const OpInfo& op : op_table()) {
    SCOPED_TRACE(op.name);
    auto kernel = traced_kernel(*trace_of(op.name));
    ASSERT_TRUE(kernel.ok()) << kernel.error().message;
    auto valid = verify(*kernel);
    EXPECT_TRUE(valid.ok()) << valid.error().message;
    const Kernel canonical = canonicalise(*kernel);
    EXPECT_TRUE(contains(canonical.body, op.code));
    EXPECT_EQ(print(canonicalise(canonical)), print(canonical));
    auto decoded = decode_kernel(encode_kernel(canonical));
    ASSERT_TRUE(decoded.ok()) << decoded.error().message;
    EXPECT_EQ(print(*decoded), print(canonical));
    EXPECT_EQ(print(parsed(print(canonical))), print(canonical));
    auto concrete = instantiate(canonical, {}, {});
    ASSERT_TRUE(concrete.ok()) << concrete.error().message;
    EXPECT_TRUE(verify(*concrete).ok());
    // A require that holds has done its work.
    EXPECT_EQ(contains(concrete->body, op.code), op.code != OpCode::kRequire);
  }
}

TEST(Completeness, EveryOpIsInterpreted) {
  for (const OpInfo& op : op_table()) {
    SCOPED_TRACE(op.name);
    auto concrete = instantiate(*traced_kernel(*trace_of(op.name)), {}, {});
    ASSERT_TRUE(concrete.ok()) << concrete.error().message;
    auto done = run(*concrete);
    if (op.code != OpCode::kInlineAsm) {
      EXPECT_TRUE(done.ok()) << done.error().message;
    } else {
      // The one op without a meaning of its own.
      ASSERT_FALSE(done.ok());
      EXPECT_NE(done.error().message.find("GPU targets only"), std::string::npos) << done.error().message;
    }
  }
}

}  // namespace
}  // namespace kiln::dsl::testing
