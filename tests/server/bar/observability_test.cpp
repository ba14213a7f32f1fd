// Statement 36: what can be seen of the daemon, by figures, logs, traces and reports of crashes.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "bar.h"
#include "golden_kernel.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"

namespace kiln::service_test {
namespace {

using BarObservability = Bar;

// An entry says who had it compiled, and has the request; so has the report of a crash, which can be repeated.
TEST_F(BarObservability, Statement36CompilesAndCrashesCanBeRepeated) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->fetch(order("bytes", 64, "kept"), {.trace_id = "trace-5", .durable = true}));
  EXPECT_EQ(daemon->compile(order("segv", 7), {.trace_id = "trace-6"}).error().code, ErrorCode::kWorkerCrashed);
  const std::string crash = cache() + "/crashes/" + to_hex(daemon->key_of(order("segv", 7)));
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(crash); }));
  for (const auto& [file, trace] : {std::pair(entry_files(cache()).at(0), "trace-5"), std::pair(crash, "trace-6")}) {
    std::ifstream in(file, std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(in)), {});
    auto entry = wire::decode_entry(std::as_bytes(std::span(bytes)));
    ASSERT_TRUE(entry) << entry.error().message;
    const auto record = nlohmann::json::parse(entry->record);
    EXPECT_EQ(record["client"], "service_tests");
    EXPECT_EQ(record["trace_id"], trace);
    EXPECT_EQ(record["builder"], "fake-builder-1");
    EXPECT_TRUE(record["phases"].contains("obey"));
    EXPECT_EQ(record.contains("cause"), file == crash);
    std::ofstream(temp_ / "request", std::ios::binary)
        .write(reinterpret_cast<const char*>(entry->request.data()),
               static_cast<std::streamsize>(entry->request.size()));
    auto again = wire::spawn({.command = {KILN_TEST_WORKER, "--compile", temp_ / "request", temp_ / "code"}});
    ASSERT_TRUE(again);
    EXPECT_EQ(wire::exit_text(wire::wait_for_exit(*again, kPatience).value()),
              file == crash ? "signal 11" : "exit code 0");
  }
  EXPECT_EQ(std::filesystem::file_size(temp_ / "code"), 64u);
  // Many crashes leave the newest reports.
  for (int i = 0; i < 70; ++i) (void)daemon->compile(order("exit", 3, std::to_string(i)));
  auto reports = [&] {
    std::filesystem::directory_iterator files(cache() + "/crashes");
    return std::distance(begin(files), end(files));
  };
  EXPECT_TRUE(eventually([&] { return reports() == 64; }));
}

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The requests that daemons have left when they crashed.
std::vector<std::string> kept_requests(const std::string& runtime_dir) {
  std::vector<std::string> out;
  for (const auto& file : std::filesystem::directory_iterator(runtime_dir)) {
    if (file.path().filename().string().starts_with("kilnd.crash.request.")) out.push_back(file.path());
  }
  return out;
}

TEST_F(BarObservability, Statement36ACrashOfTheDaemonNamesItsCompiles) {
  start();
  auto daemon = connect();
  const std::string key = to_hex(daemon->key_of(order("hang", 1)));
  std::jthread waiting([&] { EXPECT_FALSE(daemon->compile(order("hang", 1))); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  const std::string build = connect()->server().daemon_build_id;
  daemon_.signal(SIGSEGV);
  EXPECT_EQ(daemon_.wait(), 128 + SIGSEGV);
  waiting.join();
  const std::vector<std::string> requests = kept_requests(runtime());
  ASSERT_EQ(requests.size(), 1u);
  const std::string kept = requests[0];
  const std::string report = text_of(runtime() + "/kilnd.crash");
  for (const std::string& part : {std::string("signal 11"), "kilnd " KILN_VERSION ", build-id " + build,
                                  "in flight: " + key + "; again: kiln reproduce " + kept}) {
    EXPECT_NE(report.find(part), std::string::npos) << part << "\nnot in\n" << report;
  }
  // The request is there, though it was stored nowhere: the compiler is given the same bytes.
  const std::string bytes = text_of(kept);
  auto body = wire::split_compile_body(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(body) << body.error().message;
  EXPECT_TRUE(std::ranges::equal(body->canonical, order("hang", 1).canonical));
  // The next crash leaves it as it is: an older report still names its own.
  start();
  daemon = connect();
  std::jthread again([&] { EXPECT_FALSE(daemon->compile(order("hang", 2))); });
  ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 1; }));
  daemon_.signal(SIGSEGV);
  EXPECT_EQ(daemon_.wait(), 128 + SIGSEGV);
  again.join();
  EXPECT_EQ(text_of(kept), bytes);
  EXPECT_EQ(kept_requests(runtime()).size(), 2u);
  // Of many the newest stay.
  for (int i = 0; i < 70; ++i) std::ofstream(runtime() + "/kilnd.crash.request.1-1-" + std::to_string(i)) << "old";
  for (const std::string& file : kept_requests(runtime())) {
    const auto written = std::filesystem::file_time_type::clock::now() - (text_of(file) == "old" ? 3600s : 0s);
    std::filesystem::last_write_time(file, written);
  }
  start();
  EXPECT_EQ(kept_requests(runtime()).size(), 64u);
  EXPECT_EQ(text_of(kept), bytes);
}

// A client's child over a pipe has no directory of its own, and reports where a daemon would.
TEST_F(BarObservability, Statement36ACrashOfAChildOverAPipeIsReported) {
  auto dir = wire::open_private_dir(runtime());
  ASSERT_TRUE(dir);
  auto ends = wire::make_channel_pair();
  ASSERT_TRUE(ends);
  wire::Program program{
      .command = {KILN_TEST_KILND, "--pipe", "--cache-dir", "", "--worker", KILN_TEST_WORKER, "--tuner", ""},
      .descriptors = {{.number = 0, .fd = ends->theirs.get()}}};
  ::setenv("KILN_RUNTIME_DIR", runtime().c_str(), 1);
  auto child = wire::spawn(program);
  ::unsetenv("KILN_RUNTIME_DIR");
  ASSERT_TRUE(child);
  ends->theirs.reset();
  wire::Channel channel(std::move(ends->ours));
  ASSERT_TRUE(channel.read(wire::Clock::now() + kPatience)) << "its welcome";
  ::kill(*child, SIGSEGV);
  EXPECT_EQ(wire::exit_text(wire::wait_for_exit(*child, kPatience).value()), "signal 11");
  const std::string report = text_of(runtime() + "/kilnd.crash");
  EXPECT_NE(report.find("signal 11, process " + std::to_string(*child)), std::string::npos) << report;
  EXPECT_NE(report.find("kilnd " KILN_VERSION ", build-id "), std::string::npos) << report;
}

// A compile that ends its worker by its own fault, also where it has used up its stack.
TEST_F(BarObservability, Statement36ACrashOfAWorkerNamesItsCompile) {
  start();
  auto daemon = connect();
  for (const auto& [what, number] :
       {std::pair("segv", SIGSEGV), std::pair("abort", SIGABRT), std::pair("stack", SIGSEGV)}) {
    EXPECT_EQ(daemon->compile(order(what)).error().code, ErrorCode::kWorkerCrashed);
    std::ifstream file(runtime() + "/kiln-worker.crash");
    const std::string report((std::istreambuf_iterator<char>(file)), {});
    const std::string key = to_hex(daemon->key_of(order(what)));
    for (const std::string& part :
         {"signal " + std::to_string(number), std::string("kiln-worker " KILN_VERSION ", build-id "),
          std::string("builder fake-builder-1"), "in flight: " + key, "kiln reproduce " + key}) {
      EXPECT_NE(report.find(part), std::string::npos) << part << "\nnot in\n" << report;
    }
  }
  EXPECT_TRUE(daemon->compile(order("bytes")));
}

int series_in(const std::string& text) {
  std::istringstream lines(text);
  int out = 0;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("#")) continue;
    EXPECT_TRUE(line.starts_with("kiln_")) << line;
    EXPECT_TRUE(std::isdigit(line.back())) << line;
    ++out;
  }
  return out;
}

sockaddr_in loopback(uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

// One that was free a moment ago.
uint16_t free_port() {
  wire::UniqueFd probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  return ntohs(address.sin_port);
}

wire::UniqueFd connect_to(uint16_t port) {
  wire::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback(port);
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fd.reset();
  return fd;
}

// What a scrape of the loopback port gets.
std::string scrape(uint16_t port, const std::string& request) {
  const wire::UniqueFd fd = connect_to(port);
  if (!fd) return "not reachable";
  (void)!::write(fd.get(), request.data(), request.size());
  std::string out;
  char chunk[4096];
  for (ssize_t count; (count = ::read(fd.get(), chunk, sizeof chunk)) > 0;)
    out.append(chunk, static_cast<size_t>(count));
  return out;
}

TEST_F(BarObservability, Statement36FiguresOverHttpWhereAskedFor) {
  const uint16_t port = free_port();
  start({"--metrics-port", std::to_string(port)});
  const std::string figures = scrape(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(figures.starts_with("HTTP/1.1 200 OK\r\n")) << figures;
  EXPECT_NE(figures.find("kiln_compiles_total 0"), std::string::npos) << figures;
  EXPECT_TRUE(scrape(port, "POST /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
  EXPECT_EQ(scrape(port, std::string(20'000, 'x')).find("HTTP/1.1 200"), std::string::npos);
  EXPECT_TRUE(connect()->ping());
}

// Other users of the machine reach the port too.
TEST_F(BarObservability, Statement36IdleVisitorsOfThePortKeepNobodyOut) {
  const uint16_t port = free_port();
  start({"--metrics-port", std::to_string(port)});
  std::vector<wire::UniqueFd> idle;
  for (int i = 0; i < 64; ++i) {
    idle.push_back(connect_to(port));
    ASSERT_TRUE(idle.back());
    if (i % 2) (void)!::write(idle.back().get(), "GET /met", 8);
  }
  for (int i = 0; i < 3; ++i) {
    const std::string figures = scrape(port, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(figures.starts_with("HTTP/1.1 200 OK\r\n")) << figures;
  }
}

// It is somebody else's, and may become free.
TEST_F(BarObservability, Statement36APortThatIsTakenIsWaitedFor) {
  wire::UniqueFd other(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  ASSERT_EQ(::getsockname(other.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
  const uint16_t port = ntohs(address.sin_port);
  start({"--metrics-port", std::to_string(port)});
  EXPECT_TRUE(connect()->compile(order("bytes")));
  other.reset();
  EXPECT_TRUE(eventually([&] { return scrape(port, "GET /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"); }));
}

TEST_F(BarObservability, Statement36WhatHappenedCanBeSeen) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes", 64, "x"), {.trace_id = "trace-1"}));
  ASSERT_TRUE(daemon->compile(order("sleep", 1100, "slow"), {.trace_id = "trace-2"}));
  EXPECT_EQ(daemon->compile(order("segv"), {.trace_id = "trace-3"}).error().trace_id, "trace-3");
  EXPECT_EQ(daemon->compile(order("fail"), {.trace_id = "trace-4"}).error().trace_id, "trace-4");
  // A hit, and two that share a compile.
  ASSERT_TRUE(daemon->compile(order("bytes", 64, "x"), {.trace_id = "trace-5"}));
  std::jthread first([&] { EXPECT_TRUE(connect()->compile(order("waits", 0, "shared"), {.trace_id = "trace-6"})); });
  ASSERT_TRUE(eventually([&] { return stats()["waiters"] == 1; }));
  std::jthread second([&] { EXPECT_TRUE(connect()->compile(order("waits", 0, "shared"), {.trace_id = "trace-7"})); });
  ASSERT_TRUE(eventually([&] { return stats()["waiters"] == 2 && busy_workers().size() == 1; }));
  std::this_thread::sleep_for(1100ms);  // so that it is slow
  let_go(busy_workers());
  first.join();
  second.join();
  EXPECT_EQ(daemon->compile(order("fail"), {.trace_id = "trace-8"}).error().trace_id, "trace-8");
  RawPeer rude(runtime());
  rude.send({.type = wire::Type::kPing, .request_id = 1});
  ASSERT_TRUE(rude.closed());
  auto text = daemon->stats("prometheus");
  ASSERT_TRUE(text) << text.error().message;
  for (const char* series : {"kiln_hits_total{tier=\"memory\"}",
                             "kiln_misses_total",
                             "kiln_joins_total",
                             "kiln_queue_depth{class=\"interactive\"}",
                             "kiln_queue_depth{class=\"background\"}",
                             "kiln_queue_wait_ms_total{class=\"interactive\"}",
                             "kiln_compile_ms_bucket{target=\"cpu\",le=\"1\"}",
                             "kiln_compile_ms_count{target=\"failed\"} 1",
                             "kiln_worker_deaths_total{cause=\"signal 11\"} 2",
                             "kiln_cache_corrupt_total",
                             "kiln_cache_quarantined_total",
                             "kiln_evictions_total",
                             "kiln_disk_bytes",
                             "kiln_store_errors_total",
                             "kiln_spawn_backoff",
                             "kiln_connections",
                             "kiln_rss_bytes",
                             "kiln_hits_total{tier=\"disk\"}",
                             "kiln_hits_total{tier=\"remote\"}",
                             "kiln_rejected_total{reason=\"no_hello\"} 1",
                             "kiln_errors_total{code=\"WORKER_CRASHED\"} 1"}) {
    EXPECT_NE(text->find(series), std::string::npos) << series << "\n" << *text;
  }
  const int series = series_in(*text);
  EXPECT_GE(series, 30);
  const auto slow = stats()["slow_log"];
  ASSERT_EQ(slow.size(), 2u);  // and the shared one
  EXPECT_EQ(slow[0]["trace_id"], "trace-2");
  EXPECT_GT(slow[0]["phases"]["obey"], 1000);
  for (const char* name : {"kilnd.log", "kiln-worker.log"}) {
    std::set<std::string> ids;
    for (const auto& line : log_lines(name)) ids.insert(line.value("trace_id", ""));
    for (const char* id : {"trace-1", "trace-2", "trace-3", "trace-4"}) {
      EXPECT_TRUE(ids.contains(id)) << id << " in " << name;
    }
  }
  auto trace = daemon->stats("trace");
  ASSERT_TRUE(trace);
  const auto events = nlohmann::json::parse(*trace)["traceEvents"];
  std::map<std::string, std::set<std::string>> names;
  for (const auto& event : events) {
    names[event["args"]["trace_id"]].insert(event["name"].get<std::string>());
    if (event["args"]["trace_id"] == "trace-6") {
      EXPECT_EQ(event["args"]["joined"], nlohmann::json::array({"trace-7"}));
    }
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
  using Names = std::set<std::string>;
  EXPECT_EQ(names["trace-2"], (Names{"compile", "lookup", "queue", "obey"}));
  EXPECT_EQ(names["trace-5"], (Names{"memory", "lookup"}));
  EXPECT_EQ(names["trace-6"], (Names{"compile", "lookup", "queue", "obey"}));
  EXPECT_EQ(names["trace-8"], (Names{"COMPILE_FAILED", "lookup"}));
  const auto last = daemon->stats("trace", 1);
  ASSERT_TRUE(last);
  const nlohmann::json last_events = nlohmann::json::parse(*last)["traceEvents"];
  EXPECT_FALSE(last_events.empty());
  for (const auto& event : last_events) EXPECT_EQ(event["args"]["trace_id"], "trace-8");
  EXPECT_FALSE(daemon->stats("xml"));
  figure(36, "%d series; one trace id in error, both logs, slow log and trace (%zu events of 8 requests)", series,
         events.size());
}

// Every request is in the trace, however short its way was: lookups, tuning, and what is refused where it comes in.
TEST_F(BarObservability, Statement36TracesHaveEveryRequest) {
  start({"--user-limit", "1", "--tuner", ""});
  auto daemon = connect();
  const RequestBytes bytes = order("bytes", 64, "x");
  ASSERT_TRUE(daemon->fetch(bytes, {.trace_id = "first"}));   // GET, which misses, then COMPILE
  ASSERT_TRUE(daemon->fetch(bytes, {.trace_id = "second"}));  // GET
  std::stop_source stop;
  std::jthread hanging([&] { (void)connect()->compile(order("hang"), {.cancel = stop.get_token()}); });
  ASSERT_TRUE(eventually([&] { return stats()["interactive_waiters"] == 1; }));
  EXPECT_EQ(daemon->compile(order("bytes", 64, "y"), {.trace_id = "refused"}).error().code,
            ErrorCode::kResourceExhausted);
  stop.request_stop();
  hanging.join();
  EXPECT_FALSE(daemon->tune(bytes, {.trace_id = "untuned"}));  // this daemon has no tuner
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  peer.send({.type = wire::Type::kGet, .request_id = 1, .body = {std::as_bytes(std::span("short"))}});
  EXPECT_EQ(wire::parse_error(peer.read()->json).code, ErrorCode::kInvalidArgument);
  const auto text = daemon->stats("trace");
  ASSERT_TRUE(text);
  std::vector<std::string> requests;
  std::map<std::string, std::string> by_id;
  const auto events = nlohmann::json::parse(*text)["traceEvents"];
  for (const auto& event : events) {
    if (event["pid"] != "requests" || event["name"] == "lookup" || event["name"] == "queue") continue;
    const std::string what = event["cat"].get<std::string>() + " " + event["name"].get<std::string>();
    requests.push_back(what);
    by_id[event["args"]["trace_id"]] = what;
    EXPECT_GE(event["dur"].get<double>(), 0);
  }
  // A compile is there twice, the whole way and the part of it that a worker had; the client asks for tuning again.
  EXPECT_EQ(requests, (std::vector<std::string>{"GET NOT_FOUND", "COMPILE compile", "COMPILE compile", "GET memory",
                                                "COMPILE RESOURCE_EXHAUSTED", "COMPILE CANCELLED", "COMPILE compile",
                                                "TUNE UNAVAILABLE", "TUNE UNAVAILABLE", "GET INVALID_ARGUMENT"}));
  EXPECT_EQ(by_id["first"], "COMPILE compile");
  EXPECT_EQ(by_id["refused"], "COMPILE RESOURCE_EXHAUSTED");
  EXPECT_EQ(by_id["untuned"], "TUNE UNAVAILABLE");
  figure(36, "a trace has lookups, compiles, tuning and what was refused at once (%zu of %d requests)", by_id.size(),
         7);
}

}  // namespace
}  // namespace kiln::service_test
