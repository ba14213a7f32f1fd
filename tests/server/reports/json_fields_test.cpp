// JSON that is written, and read, while there is no memory: nlohmann's own destructors would end the process.
#include "reports/json_fields.h"

#include <gtest/gtest.h>

#include <new>

#include "kiln/wire/messages.h"
#include "reports/history.h"
#include "reports/log.h"
#include "service_fixture.h"
#include "shortage.h"

namespace kiln::server {
namespace {

using service_test::NoMemory;

// Does it with so many allocations, and one more, until it has enough of them.
template <class Act>
void with_ever_more_memory(const Act& act) {
  size_t enough = 0;
  for (bool was_felt = true; was_felt; ++enough) {
    const NoMemory none(enough);
    try {
      act();
    } catch (const std::bad_alloc&) {
    }
    was_felt = none.was_felt();
  }
  EXPECT_GT(enough, 10u) << "there is something to allocate";
}

const std::vector<std::string> kNames = {"a", "a name that is longer than a string without memory of its own"};

TEST(JsonFields, AreTheFieldsOfAnObject) {
  EXPECT_EQ(fields_text({}), "");
  EXPECT_EQ(fields_text({{"n", 1}, {"none", nullptr}, {"text", "\x1b\"ü"}}), R"("n":1,"text":"\u001b\"\u00fc")");
  EXPECT_EQ(list_text({}), "[]");
  EXPECT_EQ(list_text({"a", "\""}), R"(["a","\""])");
}

TEST(JsonFields, EachAllocationOfALineMayFail) {
  const service_test::TempDir temp;
  Log log(temp / "log", "info");
  with_ever_more_memory([&] { log.info("event", {{"key", kNames[1]}, {"n", 7}, {"none", nullptr}}); });
}

TEST(JsonFields, EachAllocationOfATraceMayFail) {
  History history;
  Passage passage;
  passage.trace_id = kNames[1];
  passage.joined = kNames;
  passage.queued = passage.started = passage.ended = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i) history.add(passage);
  with_ever_more_memory([&] { (void)history.trace(SIZE_MAX); });
}

// Of lists that are as long as a frame has room for.
TEST(JsonFields, EachAllocationOfAFrameThatIsReadMayFail) {
  std::string list = "[";
  while (list.size() < 3'000) list += "[1,{\"a\":2}],";
  list += "0]";
  const std::string frame = R"({"trace_id":"a name that is longer than its string","x":)" + list + "}";
  with_ever_more_memory([&] { (void)wire::parse_compile_header(frame); });
  with_ever_more_memory([&] { (void)wire::parse_hello(frame.substr(0, frame.size() - 1)); });  // does not parse
}

}  // namespace
}  // namespace kiln::server
