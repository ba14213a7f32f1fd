// `.safetensors` files, as they should be and as somebody may write them.
#include "kiln/client/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "scratch.h"

namespace kiln {
namespace {

using testing::HasSubstr;

class SafeTensorsFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-safetensors-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override { test::remove_scratch(directory_); }

  std::string write(const std::string& bytes) const {
    const std::string path = (directory_ / "file.safetensors").string();
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  // `length`: what the file says of its header.
  static std::string file(const std::string& header, const std::string& data, uint64_t length) {
    std::string out(8, '\0');
    std::memcpy(out.data(), &length, 8);
    return out + header + data;
  }
  std::string write(const std::string& header, const std::string& data) const {
    return write(file(header, data, header.size()));
  }
  std::string error_of(const std::string& header, const std::string& data = "") const {
    auto opened = SafeTensors::open(write(header, data));
    if (opened) return "it opened";
    EXPECT_THAT(opened.error().message, HasSubstr("file.safetensors: "));
    return opened.error().message;
  }

  std::filesystem::path directory_;
};

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST_F(SafeTensorsFile, IsMapped) {
  const std::string header = R"({"b":{"dtype":"U8","shape":[],"data_offsets":[24,25]},"__metadata__":{"format":"pt"},)"
                             R"("w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                             R"("none":{"dtype":"BF16","shape":[4,0],"data_offsets":[25,25]}}   )";
  const std::string path = write(header, floats({1, 2, 3, 4, 5, 6}) + "\7");
  ArrayView kept;
  {
    const auto opened = SafeTensors::open(path);
    ASSERT_TRUE(opened) << opened.error().message;
    ASSERT_EQ(opened->tensors().size(), 3u);
    EXPECT_EQ(opened->tensors()[0].name, "w");
    EXPECT_EQ(opened->tensors()[2].shape, (std::vector<int64_t>{4, 0}));
    EXPECT_EQ(opened->metadata().at("format"), "pt");
    const auto b = opened->find("b");
    ASSERT_TRUE(b);
    EXPECT_EQ(*static_cast<const uint8_t*>(b->data), 7);
    EXPECT_THAT(opened->find("c").error().message, HasSubstr("has no tensor `c`"));
    EXPECT_EQ(opened->find("c").error().code, ErrorCode::kNotFound);
    kept = *opened->find("w");
  }
  EXPECT_EQ(kept.element, dsl::ElementType::kF32);
  EXPECT_EQ(kept.shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(kept.bytes, 24u);
  float last = 0;
  std::memcpy(&last, static_cast<const std::byte*>(kept.data) + 20, sizeof last);
  EXPECT_EQ(last, 6);
}

// As a bundle of the command line has it.
TEST_F(SafeTensorsFile, MayBeAPartOfAnother) {
  const std::vector<SafeTensors::Tensor> tensors = {
      {.name = "w", .element = dsl::ElementType::kF32, .shape = {2}, .bytes = 8},
      {.name = "b\"", .element = dsl::ElementType::kU8, .shape = {}, .bytes = 1}};
  const std::string header = safetensors_header(tensors), whole = header + floats({3, 4}) + "\7";
  EXPECT_EQ(header.size() % 64, 0u);
  const std::string path = write("before" + whole + "behind");
  const auto opened = SafeTensors::open_part(path, 6, whole.size());
  ASSERT_TRUE(opened) << opened.error().message;
  float last = 0;
  std::memcpy(&last, static_cast<const std::byte*>(opened->find("w")->data) + 4, sizeof last);
  EXPECT_EQ(last, 4);
  EXPECT_EQ(*static_cast<const uint8_t*>(opened->find("b\"")->data), 7);
  EXPECT_THAT(SafeTensors::open_part(path, 6, whole.size() + 1).error().message,
              HasSubstr("take 9 bytes, and it has 10"));
  EXPECT_THAT(SafeTensors::open_part(path, 6, 7).error().message, HasSubstr("too short"));
  EXPECT_THAT(SafeTensors::open_part(path, 1 << 20, 100).error().message, HasSubstr("ends before its tensors"));
}

TEST_F(SafeTensorsFile, MayBeNone) {
  EXPECT_THAT(SafeTensors::open((directory_ / "missing").string()).error().message, HasSubstr("cannot be opened"));
  EXPECT_THAT(SafeTensors::open(directory_.string()).error().message, HasSubstr("no regular file"));
  EXPECT_THAT(SafeTensors::open(write("")).error().message, HasSubstr("too short"));
  EXPECT_THAT(SafeTensors::open(write(file("{}", "", 3))).error().message, HasSubstr("ends in its header"));
  EXPECT_THAT(SafeTensors::open(write(file("{}", "", ~0ull))).error().message, HasSubstr("beyond 16 MiB"));
  EXPECT_THAT(error_of("{"), HasSubstr("does not parse"));
  EXPECT_THAT(error_of("[]"), HasSubstr("its header: "));
  EXPECT_THAT(error_of(R"({"a":)" + std::string(100'000, '[')), HasSubstr("its header: "));
  EXPECT_THAT(error_of("{}", "x"), HasSubstr("its tensors take 0 bytes, and it has 1"));
  EXPECT_TRUE(SafeTensors::open(write("{}", "")));
}

TEST_F(SafeTensorsFile, MayHaveBadTensors) {
  const auto one = [](const std::string& fields) { return R"({"w":{)" + fields + "}}"; };
  const std::string f32 = R"("dtype":"F32",)";
  EXPECT_THAT(error_of(R"({"w":3})"), HasSubstr("tensor `w`: it is no object"));
  EXPECT_THAT(error_of(one(R"("shape":[])")), HasSubstr("it has no `dtype`"));
  EXPECT_THAT(error_of(one(R"("dtype":"C64","shape":[],"data_offsets":[0,8])")), HasSubstr("`C64` is not supported"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[-1],"data_offsets":[0,4])")), HasSubstr("`shape` is no list of sizes"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1.5],"data_offsets":[0,4])")), HasSubstr("`shape` is no list of sizes"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"data_offsets":[0,4])")),
              HasSubstr("`shape` is no list of sizes"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1])")), HasSubstr("`data_offsets` is no list of sizes"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1],"data_offsets":[4,0])")), HasSubstr("no two places"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1],"data_offsets":[4])")), HasSubstr("no two places"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[2],"data_offsets":[0,4])")), HasSubstr("takes 8 bytes, and it has 4"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[4611686018427387904,16],"data_offsets":[0,0])")),
              HasSubstr("its shape takes"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1],"data_offsets":[0,4])"), "abc"),
              HasSubstr("take 4 bytes, and it has 3"));
  EXPECT_THAT(error_of(one(f32 + R"("shape":[1],"data_offsets":[9223372036854775803,9223372036854775807])"), "abcd"),
              HasSubstr("begins at 9223372036854775803"));
  EXPECT_THAT(error_of(R"({"w":{},"w":{}})"), HasSubstr("'w' is there twice"));
  EXPECT_THAT(error_of(R"({"__metadata__":{"a":1}})"), HasSubstr("`__metadata__` has what is no text"));
  const std::string both = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})";
  EXPECT_THAT(error_of(both, "abc"), HasSubstr("tensor `b` begins at 1, and the one before it ends at 2"));
}

}  // namespace
}  // namespace kiln
