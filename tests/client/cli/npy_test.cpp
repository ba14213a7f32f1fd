// The .npy reader against headers that people and attackers write.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

class Npy : public CliTest {
 protected:
  // A file of version 1 with this header and so many bytes of data.
  Result<client::NpyArray> read_with(const std::string& header, size_t data, char version = 1) const {
    std::string file("\x93NUMPY", 6);
    file += {version, '\0', static_cast<char>(header.size() & 0xff), static_cast<char>(header.size() >> 8)};
    if (version == 2) file += std::string(2, '\0');
    write("a.npy", file + header + std::string(data, '\x01'));
    return client::read_npy(path("a.npy"));
  }
  void expect_bad(const std::string& header, size_t data, const std::string& text) const {
    auto array = read_with(header, data);
    ASSERT_FALSE(array.ok()) << header;
    EXPECT_NE(array.error().message.find(text), std::string::npos) << array.error().message;
  }
};

TEST_F(Npy, ReadsWhatNumPyWrites) {
  auto array = read_with("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }          \n", 24);
  ASSERT_TRUE(array.ok()) << array.error().message;
  EXPECT_EQ(array->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(array->dtype, "<f4");
  EXPECT_TRUE(read_with("{'descr': '|u1', 'fortran_order': False, 'shape': (), }\n", 1).ok());
  EXPECT_TRUE(read_with("{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }\n", 3, 2).ok());
  EXPECT_TRUE(read_with("{\"shape\":(0,5),\"descr\":\"<i8\",\"fortran_order\":False}", 0).ok());
}

TEST_F(Npy, RoundTrips) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{}, {5}, {2, 3, 4}, {0}, {1, 1}}) {
    auto array = client::NpyArray::make(shape, dsl::ElementType::kI16);
    ASSERT_TRUE(array.ok() && client::write_npy(path("a.npy"), *array).ok());
    auto back = client::read_npy(path("a.npy"));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_EQ(back->shape, shape);
    EXPECT_EQ(read("a.npy").size() % 64, back->bytes % 64);
  }
}

TEST_F(Npy, RefusesWhatItCannotRead) {
  expect_bad("{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "dtype '>f4' is not supported");
  expect_bad("{'descr': '<c8', 'fortran_order': False, 'shape': (1,), }", 8, "dtype '<c8' is not supported");
  expect_bad("{'descr': '<f4', 'fortran_order': True, 'shape': (2,), }", 8, "Fortran order is not supported");
  EXPECT_NE(read_with("{}", 0, 3).error().message.find(".npy version 3 is not supported"), std::string::npos);
}

TEST_F(Npy, RefusesMalformedHeaders) {
  for (const char* header :
       {"", "{", "{}", "[]", "{'descr': '<f4'}", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2 3), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (2,), }",
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (2,), }"}) {
    expect_bad(header, 8, "malformed .npy header");
  }
}

TEST_F(Npy, SizesThatOverflowOrDisagreeAllocateNothing) {
  expect_bad("{'descr': '<f8', 'fortran_order': False, 'shape': (4611686018427387904, 8), }", 8,
             "disagrees with the 8 bytes");
  expect_bad("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }", 8, "disagrees with the 8 bytes");
  write("a.npy", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12));
  EXPECT_NE(client::read_npy(path("a.npy")).error().message.find("header is too long"), std::string::npos);
  write("a.npy", std::string("\x93NUMPY\x01\x00\xff\x00{", 11));
  EXPECT_NE(client::read_npy(path("a.npy")).error().message.find("ends in its header"), std::string::npos);
  write("a.npy", "\x93NUM");
  EXPECT_NE(client::read_npy(path("a.npy")).error().message.find("not a .npy file"), std::string::npos);
}

}  // namespace
}  // namespace kiln::cli::testing
