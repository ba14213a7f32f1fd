// Names of clients, traces and builders reach the user's terminal as text and as nothing else.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

class TerminalTest : public ServiceTest {
 protected:
  std::string output_of(const std::string& command) const {
    const std::string line =
        "KILN_RUNTIME_DIR=" + runtime() + " KILN_CACHE_DIR=" + cache() + " " KILN_TEST_KILN " " + command + " 2>&1";
    std::string out;
    FILE* pipe = ::popen(line.c_str(), "r");
    if (!pipe) return out;
    char chunk[4096];
    for (size_t count; (count = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) out.append(chunk, count);
    ::pclose(pipe);
    return out;
  }
};

bool obeyed_by_terminals(const std::string& text) {
  const bool c0 = std::ranges::any_of(
      text, [](unsigned char byte) { return byte == 0x7f || (byte < 0x20 && byte != '\n' && byte != '\t'); });
  return c0 || text.find("\xc2\x9b") != std::string::npos;
}

TEST_F(TerminalTest, NamesAreNoEscapeSequences) {
  start();
  auto named = options();
  named.client_name =
      "evil\x1b]0;owned\a\xc2\x9b"
      "2J";
  auto daemon = Connection::open(named);
  ASSERT_TRUE(daemon) << daemon.error().message;
  const std::string trace =
      "trace\x1b[31m\x7f\xc2\x9b"
      "1m";
  const auto done = order("bytes", 64, "done");
  ASSERT_TRUE((*daemon)->compile(done, {.trace_id = trace, .durable = true}));
  EXPECT_FALSE((*daemon)->compile(order("exit", 3), {.trace_id = trace}));
  std::stop_source stop;
  std::jthread running(
      [&] { (void)(*daemon)->compile(order("hang"), {.cancel = stop.get_token(), .trace_id = trace}); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  const std::string key = to_hex((*daemon)->key_of(done));
  for (const std::string& command :
       {std::string("top --count 1"), std::string("stats"), std::string("stats --json"), std::string("stats --poison"),
        std::string("stats --prometheus"), std::string("trace"), std::string("cache ls"), "explain " + key}) {
    const std::string text = output_of(command);
    EXPECT_FALSE(obeyed_by_terminals(text)) << command << "\n" << text;
    if (command.starts_with("top") || command.starts_with("explain")) {
      EXPECT_NE(text.find("evil?]0;owned"), std::string::npos) << command << "\n" << text;
    }
  }
  stop.request_stop();
  // The logs are for people too; in the foreground they are on the terminal.
  for (const char* name : {"/kilnd.log", "/kiln-worker.log"}) {
    std::ifstream log(runtime() + name);
    const std::string text((std::istreambuf_iterator<char>(log)), {});
    EXPECT_NE(text.find("trace"), std::string::npos) << name;
    EXPECT_FALSE(obeyed_by_terminals(text)) << name << "\n" << text;
  }
}

}  // namespace
}  // namespace kiln::service_test
