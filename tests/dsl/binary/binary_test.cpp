// The binary form: round trips, what is in the key and what is not, and hostile bytes.
#include "kiln/dsl/binary.h"

#include <nlohmann/json.hpp>

#include "kiln/dsl/canonical.h"
#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"
#include "random/random_kernel.h"
#include "text_helpers.h"

namespace kiln::dsl::testing {
namespace {

using Bytes = std::vector<std::byte>;

TEST(Binary, KernelsRoundTripExactly) {
  for (const auto& path : golden_files()) {
    const Kernel kernel = parsed(read_file(path));
    const Bytes bytes = encode_kernel(kernel);
    auto back = decode_kernel(bytes);
    ASSERT_TRUE(back.ok()) << path << back.error().message;
    EXPECT_EQ(print(*back), print(canonicalise(kernel)));
    EXPECT_EQ(encode_kernel(*back), bytes);
    EXPECT_EQ(back->files, kernel.files);
  }
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const Kernel kernel = RandomKernel(seed).make();
    auto back = decode_kernel(encode_kernel(kernel));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(print(*back), print(canonicalise(kernel)));
    EXPECT_EQ(encode_kernel(*back), encode_kernel(kernel));
  }
}

using Json = nlohmann::json;

Bytes written_by_library(const Json& value) {
  const std::vector<uint8_t> cbor = Json::to_cbor(value);
  const auto bytes = std::as_bytes(std::span(cbor));
  return {bytes.begin(), bytes.end()};
}

// Keys are hashes of these bytes: there is one form of each number, that of nlohmann_json.
TEST(Binary, ItemsAreWrittenAsTheLibraryWritesThem) {
  const auto expect_same = [](const Json& value, auto write) {
    Bytes ours;
    CborWriter out(ours);
    write(out);
    EXPECT_EQ(ours, written_by_library(value)) << value;
  };
  for (int shift = 0; shift < 64; ++shift) {
    for (const uint64_t near : {(uint64_t{1} << shift) - 1, uint64_t{1} << shift, (uint64_t{1} << shift) + 1}) {
      expect_same(near, [&](CborWriter& out) { out.bits(near); });
      const auto number = static_cast<int64_t>(near);
      expect_same(number, [&](CborWriter& out) { out.integer(number); });
      expect_same(-1 - number, [&](CborWriter& out) { out.integer(-1 - number); });
    }
  }
  for (const uint64_t number : {uint64_t{22}, uint64_t{23}, uint64_t{24}, uint64_t{25}, ~uint64_t{0}}) {
    expect_same(number, [&](CborWriter& out) { out.bits(number); });
  }
  for (const size_t size : {0, 1, 23, 24, 255, 256, 65535, 65536}) {
    const std::string text(size, 'k');
    expect_same(text, [&](CborWriter& out) { out.text(text); });
    expect_same(Json(size, nullptr), [&](CborWriter& out) {
      out.array(size);
      for (size_t i = 0; i < size; ++i) out.null();
    });
  }
  for (const bool flag : {false, true}) {
    expect_same(flag, [&](CborWriter& out) { out.boolean(flag); });
  }
}

TEST(Binary, KernelsAreWrittenAsTheLibraryWritesThem) {
  for (const LibraryKernel& entry : library_kernels()) {
    for (const bool lines : {false, true}) {
      Kernel kernel = entry.ir->value();
      kernel.options.lines = lines;
      const auto request = encode_request({kernel, "cuda:sm_90a", {}, {}, lines ? "asm" : "so"});
      ASSERT_TRUE(request.ok()) << entry.name << request.error().message;
      for (const Bytes& section : {request->canonical, request->debug}) {
        const auto* begin = reinterpret_cast<const uint8_t*>(section.data());
        EXPECT_EQ(written_by_library(Json::from_cbor(begin, begin + section.size())), section) << entry.name;
      }
    }
  }
}

CompileRequest request_of(const Kernel& kernel) { return {kernel, "cpu:znver5,+avx512f", {}, {ParamFact::kAlign16}}; }

RequestBytes encoded(const CompileRequest& request) {
  auto bytes = encode_request(request);
  EXPECT_TRUE(bytes.ok()) << bytes.error().message;
  return bytes ? *bytes : RequestBytes{};
}

TEST(Binary, RequestsRoundTrip) {
  CompileRequest request = request_of(golden("matmul"));
  request.constexprs = {{"BM", 32}};
  const RequestBytes bytes = encoded(request);
  auto back = decode_request(bytes.canonical, bytes.debug);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(print(back->kernel), print(canonicalise(request.kernel)));
  EXPECT_EQ(back->target, request.target);
  EXPECT_EQ(back->constexprs, (ConstexprValues{{"BM", 32}, {"BN", 64}, {"BK", 32}}));
  EXPECT_EQ(back->facts, request.facts);
  EXPECT_EQ(back->kernel.location_text(back->kernel.body.ops[0].loc), "k.kiln:9:3");
}

TEST(Binary, OneEncoderServesManyRequestsOfAKernel) {
  for (const bool lines : {false, true}) {
    auto kernel = std::make_shared<Kernel>(golden("matmul"));
    kernel->options.lines = lines;
    const auto encoder = RequestEncoder::create(kernel);
    ASSERT_TRUE(encoder.ok()) << encoder.error().message;
    CompileRequest request = request_of(*kernel);
    const auto expect_same = [&] {
      const auto bytes = encoder->encode(request.target, request.constexprs, request.facts, request.emit);
      ASSERT_TRUE(bytes.ok()) << bytes.error().message;
      EXPECT_EQ(bytes->canonical, encoded(request).canonical);
      EXPECT_EQ(bytes->debug, encoded(request).debug);
      const auto back = decode_request(bytes->canonical, bytes->debug);
      ASSERT_TRUE(back.ok()) << back.error().message;
      EXPECT_EQ(back->emit, request.emit);
      EXPECT_EQ(back->target, request.target);
    };
    expect_same();
    request.facts.clear();
    expect_same();
    request.constexprs = {{"BM", 16}, {"num_warps", 8}};
    expect_same();
    request.emit = "llvm";
    expect_same();
    EXPECT_EQ(first_line(encoder->encode(request.target, {{"X", 1}}, {})),
              first_line(encode_request({*kernel, request.target, {{"X", 1}}, {}})));
  }
  auto broken = std::make_shared<Kernel>(golden("matmul"));
  broken->body.ops[0].operands.push_back(1000);
  EXPECT_EQ(RequestEncoder::create(broken).error().code, ErrorCode::kVerifyFailed);
}

TEST(Binary, OptionsRoundTrip) {
  CompileRequest request = request_of(golden("vector_add"));
  request.kernel.options = {.contract = false, .deterministic = true, .lines = true};
  const RequestBytes bytes = encoded(request);
  const auto back = decode_request(bytes.canonical, bytes.debug);
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->kernel.options, request.kernel.options);
}

TEST(Binary, WithoutDebugSectionNamesArePositions) {
  const RequestBytes bytes = encoded(request_of(golden("vector_add")));
  auto back = decode_request(bytes.canonical, {});
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_EQ(back->kernel.params[1].name, "arg1");
  EXPECT_EQ(back->constexprs, (ConstexprValues{{"C0", 1024}}));
  EXPECT_TRUE(back->kernel.files.empty());
  EXPECT_TRUE(back->kernel.space.empty());
  EXPECT_EQ(encoded(*back).canonical, bytes.canonical);
}

TEST(Binary, ADebugSectionOfAnotherKernelIsAnError) {
  const RequestBytes bytes = encoded(request_of(golden("vector_add"))), other = encoded(request_of(golden("matmul")));
  EXPECT_EQ(first_line(decode_request(bytes.canonical, other.debug)),
            "compile request: the debug section is of another kernel: parameters do not match");
}

TEST(RequestKey, NamesPlacesSpaceAndDefaultsAreNotInIt) {
  const Kernel kernel = golden("matmul");
  const Bytes wanted = encoded(request_of(kernel)).canonical;
  auto expect_same = [&](auto change) {
    CompileRequest request = request_of(kernel);
    change(request);
    EXPECT_EQ(encoded(request).canonical, wanted);
  };
  expect_same([](CompileRequest& r) {
    for (Value& value : r.kernel.values) value.name.clear();
  });
  expect_same([](CompileRequest& r) {
    for (Param& param : r.kernel.params) param.name += "_renamed";
  });
  expect_same([](CompileRequest& r) {
    for (Op& op : r.kernel.body.ops) op.loc = {0, 0, 0};
  });
  expect_same([](CompileRequest& r) { r.kernel.files = {"elsewhere.cc"}; });
  expect_same([](CompileRequest& r) { r.kernel.space.clear(); });
  expect_same([](CompileRequest& r) {
    r.kernel.constexprs[0] = {"TILE_M", std::nullopt};
    r.kernel.space[0].name = "TILE_M";
    r.constexprs["TILE_M"] = 64;
  });
  expect_same([](CompileRequest& r) {
    r.kernel.constexprs[0].default_value = 7;
    r.constexprs["BM"] = 64;
  });
  expect_same([](CompileRequest& r) { r.facts.resize(6); });
  // What this target does not heed.
  expect_same([](CompileRequest& r) { r.constexprs[std::string(kNumWarps)] = 2; });
  expect_same([](CompileRequest& r) { r.constexprs = {{"BM", 64}, {"BN", 64}, {"BK", 32}}; });
}

TEST(RequestKey, WhatDecidesTheCodeIsInIt) {
  const Kernel kernel = golden("matmul");
  std::vector<Bytes> seen = {encoded(request_of(kernel)).canonical};
  auto expect_new = [&](auto change) {
    CompileRequest request = request_of(kernel);
    change(request);
    seen.push_back(encoded(request).canonical);
    for (size_t i = 0; i + 1 < seen.size(); ++i)
      EXPECT_NE(seen[i], seen.back()) << "changes " << i << " and " << seen.size() - 1;
  };
  expect_new([](CompileRequest& r) { r.constexprs["BM"] = 32; });
  expect_new([](CompileRequest& r) { r.target = "cpu:x86-64-v2"; });
  expect_new([](CompileRequest& r) { r.facts[0] = ParamFact::kNone; });
  expect_new([](CompileRequest& r) { r.facts = {ParamFact::kAlign16, ParamFact::kAlign16}; });
  expect_new([](CompileRequest& r) { r.kernel.options.contract = false; });
  expect_new([](CompileRequest& r) { r.kernel.options.debug = true; });
  expect_new([](CompileRequest& r) { r.kernel.options.lines = true; });
  expect_new([](CompileRequest& r) { r.kernel.options.fuse_precision = true; });
  expect_new([](CompileRequest& r) { r.kernel.options.deterministic = true; });
  expect_new([](CompileRequest& r) { r.kernel.options.check_bounds = true; });
  expect_new([](CompileRequest& r) { r.emit = "asm"; });
  expect_new([](CompileRequest& r) { r.target = "cpu:x86-64-v3+avx512f"; });
  for (const std::string_view option : {kNumWarps, kNumStages, kWarpSpecialise, kSplitK}) {
    expect_new([&](CompileRequest& r) {
      r.target = "cuda:sm_90a";
      r.constexprs[std::string(option)] = 2;
    });
  }
  expect_new([](CompileRequest& r) { r.target = "cuda:sm_90a"; });
  expect_new([](CompileRequest& r) { r.kernel.params[0].may_alias = true; });
  expect_new([](CompileRequest& r) { r.kernel.name = "other"; });
  expect_new([](CompileRequest& r) { r.kernel.grid[0] = Expr(3); });
  expect_new([](CompileRequest& r) {
    r.kernel.params[2].readonly = false;
    r.kernel.params[0].readonly = false;
  });
  expect_new([](CompileRequest& r) { r.kernel.body.ops[1].attrs[0] = int64_t{2}; });
  expect_new([](CompileRequest& r) { r.kernel.body.ops.pop_back(); });
  expect_new([](CompileRequest& r) {
    for (Op& op : r.kernel.body.ops) {
      if (op.code == OpCode::kMul) op.code = OpCode::kAdd;
    }
  });
}

TEST(Binary, EncodingErrors) {
  CompileRequest request = request_of(golden("softmax"));
  EXPECT_EQ(first_line(encode_request(request)), "kernel `softmax`: constexpr `BLOCK` has no value and no default");
  request.constexprs = {{"BLOCK", 64}, {"X", 1}};
  EXPECT_EQ(first_line(encode_request(request)), "kernel `softmax` has no constexpr `X`; it has BLOCK");
  request.constexprs = {{"BLOCK", 64}};
  request.facts.resize(4);
  EXPECT_EQ(first_line(encode_request(request)), "kernel `softmax`: there are more facts than parameters");
  request.kernel.body.ops[0].operands[0] = 1000;
  EXPECT_EQ(encode_request(request).error().code, ErrorCode::kVerifyFailed);
}

Bytes cbor(const nlohmann::json& record) {
  const auto bytes = nlohmann::json::to_cbor(record);
  const auto* data = reinterpret_cast<const std::byte*>(bytes.data());
  return {data, data + bytes.size()};
}

TEST(Binary, DecodingErrorsSayWhatIsWrong) {
  const RequestBytes bytes = encoded(request_of(golden("vector_add")));
  auto json =
      nlohmann::json::from_cbor(reinterpret_cast<const uint8_t*>(bytes.canonical.data()),
                                reinterpret_cast<const uint8_t*>(bytes.canonical.data()) + bytes.canonical.size());
  auto error_of = [&](auto change) {
    auto changed = json;
    change(changed);
    return first_line(decode_request(cbor(changed), {}));
  };
  const std::string head = "compile request: ";
  using Record = nlohmann::json;
  EXPECT_EQ(error_of([](Record&) {}), "");
  EXPECT_EQ(first_line(decode_request({}, {})), head + "the canonical section is not well-formed");
  EXPECT_EQ(error_of([](Record& r) { r = 3; }), head + "a record is too short");
  EXPECT_EQ(error_of([](Record& r) { r[0] = "kiln-kernel-0"; }), head + "the kernel is of another version");
  EXPECT_EQ(error_of([](Record& r) { r[1] = 3; }), head + "the kernel's name is not text");
  EXPECT_EQ(error_of([](Record& r) { r[1] = "no name"; }),
            "kernel `no name`: error: a kernel's name is letters, digits, `_` and `.`");
  EXPECT_EQ(error_of([](Record& r) { r[2] = true; }), head + "the parameters is not a list");
  EXPECT_EQ(error_of([](Record& r) { r[2][0][0] = 99; }), head + "an element type is not a number in range");
  EXPECT_EQ(error_of([](Record& r) { r[3] = 1u << 30; }), head + "the number of constexprs is not a number in range");
  EXPECT_EQ(error_of([](Record& r) { r[4][0] = Record::array({Record::array({1, Record::array({1, 77})})}); }),
            head + "an index is not a number in range");
  EXPECT_EQ(error_of([](Record& r) { r[6][0][0] = 200; }), head + "an op's code is not a number in range");
  EXPECT_EQ(error_of([](Record& r) { r[6][5][1][0] = 5000; }), head + "an operand is not a number in range");
  EXPECT_EQ(error_of([](Record& r) { r[7] = nullptr; }), head + "the target is not text");
  EXPECT_EQ(error_of([](Record& r) { r[8] = Record::array(); }), head + "a record is too short");
  EXPECT_EQ(error_of([](Record& r) { r[9][0] = 9; }), head + "a fact is not a number in range");
  Record deep = 1;
  for (int i = 0; i < 100; ++i) deep = Record::array({Record::array({1, Record::array({2, deep, 1})})});
  EXPECT_EQ(error_of([&](Record& r) { r[4][0] = deep; }), head + "an expression is nested too deeply");
  EXPECT_EQ(first_line(decode_request(Bytes(100000, std::byte{0x81}), {})),
            head + "the canonical section is not well-formed");
}

TEST(Binary, HostileBytesNeverCrash) {
  std::mt19937 random(11);
  std::vector<RequestBytes> corpus;
  for (const char* name : {"vector_add", "matmul"}) corpus.push_back(encoded(request_of(golden(name))));
  for (uint32_t seed = 0; seed < 6; ++seed)
    corpus.push_back(encoded({RandomKernel(seed).make(), "cpu", {{"S", 2}}, {}}));
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    RequestBytes bytes = corpus[random() % corpus.size()];
    Bytes& target = i % 3 ? bytes.canonical : bytes.debug;
    const size_t kind = random() % 3;
    if (kind == 0) target.resize(random() % target.size());
    for (uint32_t flips = 1 + random() % 3; kind != 0 && flips > 0; --flips) {
      target[random() % target.size()] = static_cast<std::byte>(random());
    }
    auto result = decode_request(bytes.canonical, bytes.debug);
    accepted += result.ok();
    // What is accepted is sound all the way.
    EXPECT_TRUE(result ? encode_request(*result).ok() : !result.error().message.empty());
  }
  EXPECT_GT(accepted, 100u);
}

TEST(Binary, KernelBlobsAreChecked) {
  Bytes bytes = encode_kernel(golden("vector_add"));
  for (size_t size = 0; size < bytes.size(); size += 7) {
    EXPECT_FALSE(decode_kernel(std::span(bytes).first(size)).ok());
  }
  bytes.push_back({});
  EXPECT_EQ(first_line(decode_kernel(bytes)), "kernel: there are bytes behind the debug section");
}

}  // namespace
}  // namespace kiln::dsl::testing
