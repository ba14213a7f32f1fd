// The summary, the text tables, and the HTML report: as text, and in headless Chromium with its script run.
#include "kiln/autotune/report.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cmath>

#include "batch_helpers.h"
#include "progress.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Candidate candidate(int64_t bm, int64_t bn, double us) {
  Candidate out;
  out.config = {{"BM", bm}, {"BN", bn}, {"num_warps", bm >= 64 ? 8 : 4}};
  out.record = some_record(some_key(), bm, us);
  out.record.config = out.config;
  out.record.predicted_us = us * (0.8 + 0.01 * static_cast<double>(bm % 7));
  out.record.figures = {{"registers", 32 + bm / 4}, {"spill_bytes", bm == 256 ? 24 : 0}};
  out.measured = bm != 32;
  return out;
}

// A finished job with 16 configs, one that was stopped with few, one that failed, and one that did not begin. The names
// are such as HTML, JSON and scripts stumble over.
BatchResult some_batch() {
  BatchResult out;
  out.jobs.resize(4);
  JobResult full;
  full.key = some_key();
  for (int64_t bm : {32, 64, 128, 256}) {
    for (int64_t bn : {32, 64, 128, 256}) {
      const double distance = std::abs(std::log2(bm / 128.0)) + std::abs(std::log2(bn / 64.0));
      full.candidates.push_back(candidate(bm, bn, 1000 * (1 + 0.3 * distance)));
    }
  }
  std::sort(full.candidates.begin(), full.candidates.end(),
            [](const Candidate& a, const Candidate& b) { return a.record.median_us < b.record.median_us; });
  Candidate failed = candidate(512, 512, 0);
  failed.record.failure = Failure::kResources;
  failed.record.message = "shared memory: 300 KiB <script>document.title='owned'</script>\nsecond line";
  full.candidates.push_back(failed);
  full.best = full.candidates.front().config;
  full.fallback = full.candidates[9].config;
  full.best_us = 1000;
  full.default_us = full.candidates[9].record.median_us;
  full.roof = {800, "products"};
  full.space = 64;
  full.measured = 12;
  full.reused = 4;
  full.failed = 1;
  full.correlation = 0.91;
  full.finished = true;
  for (size_t i = 0; i < 8; ++i) full.convergence.emplace_back(2 * i + 1, 1000 + 1200.0 / static_cast<double>(i + 1));
  out.jobs[0].name = "matmul \"<b>&amp;</script><img src=x onerror=alert(1)> 4096×4096";
  out.jobs[0].place = "jobs.jsonl:1";
  out.jobs[0].target = "cuda:sm_90a;assembler=13.0";
  out.jobs[0].state = JobState::kDone;
  out.jobs[0].result = full;
  out.jobs[0].seconds = 12;
  JobResult few = full;
  few.candidates.resize(1);
  few.convergence.clear();
  few.best = few.fallback = few.candidates[0].config;
  few.best_us = few.default_us = 1000;
  few.finished = false;
  few.correlation = std::nan("");
  out.jobs[1].name = "softmax rows=4096,cols=1024";
  out.jobs[1].state = JobState::kDone;
  out.jobs[1].result = few;
  out.jobs[2].name = "attention";
  out.jobs[2].state = JobState::kFailed;
  out.jobs[2].error = "no CUDA driver (libcuda.so.1: cannot open)";
  out.jobs[3].name = "row_sum";
  out.measured = 13;
  out.reused = 4;
  out.failed = 1;
  out.seconds = 75;
  out.notes = {"a file was <moved> aside"};
  return out;
}

TEST(Summary, HasTotalsAndTheBestConfigOfEachJob) {
  const nlohmann::json summary = summary_json(some_batch());
  EXPECT_EQ(summary["measured"], 13);
  EXPECT_EQ(summary["reused"], 4);
  EXPECT_EQ(summary["failed"], 1);
  EXPECT_EQ(summary["failed_jobs"], 1);
  ASSERT_EQ(summary["jobs"].size(), 4u);
  const nlohmann::json& job = summary["jobs"][0];
  EXPECT_EQ(job["best"], nlohmann::json({{"BM", 128}, {"BN", 64}, {"num_warps", 8}}));
  EXPECT_EQ(job["best_us"], 1000);
  EXPECT_NEAR(job["speedup"].get<double>(), job["default_us"].get<double>() / 1000, 1e-12);
  EXPECT_NEAR(job["roofline_share"].get<double>(), 0.8, 1e-12);
  EXPECT_EQ(job["state"], "done");
  EXPECT_TRUE(summary["jobs"][1]["correlation"].is_null());
  EXPECT_EQ(summary["jobs"][2]["state"], "failed");
  EXPECT_EQ(summary["jobs"][2]["error"], "no CUDA driver (libcuda.so.1: cannot open)");
  EXPECT_EQ(summary["jobs"][3]["state"], "not begun");
}

TEST(TimeText, HasThreeDecimalsOrFewer) {
  EXPECT_EQ(time_text(1.5), "1.500 µs");
  EXPECT_EQ(time_text(12.345), "12.35 µs");
  EXPECT_EQ(time_text(123456), "123.5 ms");
  EXPECT_EQ(time_text(2.5e6), "2.500 s");
  EXPECT_EQ(time_text(0), "-");
  EXPECT_EQ(time_text(NAN), "-");
}

TEST(TextReport, RanksConfigsAndKeepsTheDefaultInView) {
  const std::string text = text_report(some_batch(), 5);
  EXPECT_THAT(text, HasSubstr("4096×4096 on cuda:sm_90a…\n  space 64, measured 12, reused 4, failed 1"));
  EXPECT_THAT(text, HasSubstr("rank correlation of the model 0.91"));
  EXPECT_THAT(text, HasSubstr("   1  BM=128,BN=64,num_warps=8   1.000 ms  ±1.0 %"));
  EXPECT_THAT(text, HasSubstr("  10  "));  // the default
  EXPECT_THAT(text, Not(HasSubstr("   9  ")));
  EXPECT_THAT(text, HasSubstr("… and 10 more"));
  EXPECT_THAT(text, HasSubstr("BM=512,BN=512,num_warps=8: " + std::string(to_string(Failure::kResources)) +
                              ": shared memory: 300 KiB"));
  EXPECT_THAT(text, Not(HasSubstr("second line")));
  EXPECT_THAT(text, HasSubstr("attention\n  failed: no CUDA driver"));
  EXPECT_THAT(text, HasSubstr("2 of 4 jobs in 75.0 s: measured 13, reused 4, failed 1\n"));
  EXPECT_THAT(text, HasSubstr("note: a file was <moved> aside"));
}

// A job that the budget ended: the fastest config only seems to be faster than the default.
BatchResult uncertain_batch() {
  BatchResult out;
  out.jobs.resize(1);
  JobResult job;
  job.candidates = {candidate(64, 64, 100), candidate(128, 64, 135), candidate(256, 64, 500), candidate(32, 64, 140)};
  for (Candidate& each : job.candidates) each.record.samples = 20;
  job.candidates[0].record.low_us = 60;
  job.candidates[0].record.high_us = 150;
  job.candidates[3].record.low_us = 20;
  job.candidates[3].record.high_us = 1840;
  job.candidates[3].record.samples = 9;
  job.fallback = job.best = job.candidates[1].config;
  job.best_us = job.default_us = 135;
  job.space = 8;
  job.measured = 4;
  out.jobs[0].name = "row_sum";
  out.jobs[0].state = JobState::kDone;
  out.jobs[0].result = job;
  return out;
}

TEST(TextReport, SaysWhereTimesTellNothing) {
  BatchResult batch = uncertain_batch();
  const std::string text = text_report(batch);
  EXPECT_THAT(text, HasSubstr("100.0 µs  ±45.0 %       ≈ 1"));
  EXPECT_THAT(text, HasSubstr("135.0 µs   ±1.0 %     1.00×"));
  EXPECT_THAT(text, HasSubstr("500.0 µs   ±1.0 %     0.27×"));
  EXPECT_THAT(text, HasSubstr("140.0 µs    noisy       ≈ 1"));
  EXPECT_THAT(text, Not(HasSubstr("1.35×")));
  batch.jobs[0].result->candidates[0].record.samples = 3;
  EXPECT_THAT(text_report(batch), HasSubstr("100.0 µs     few       ≈ 1"));
}

// The choice is made by turns. What looked faster in the search was not, and its row must not say so.
TEST(TextReport, NoRowPromisesMoreThanTheChoice) {
  BatchResult batch = uncertain_batch();
  JobResult& job = *batch.jobs[0].result;
  job.candidates[0].record.low_us = 99;
  job.candidates[0].record.high_us = 101;
  EXPECT_THAT(text_report(batch), HasSubstr("100.0 µs  ±1.0 %   ≤ 1.00×"));
  EXPECT_THAT(text_report(batch), HasSubstr("default, best\n"));
  job.best = job.candidates[3].config;
  job.best_us = 120;
  EXPECT_THAT(text_report(batch), HasSubstr("100.0 µs  ±1.0 %   ≤ 1.12×"));
  EXPECT_THAT(text_report(batch, 1), HasSubstr("   4  ")) << "the choice is shown, however far down it is";
}

TEST(Progress, SaysWhatTheTablesSay) {
  BatchResult batch = uncertain_batch();
  const auto printed = [&] {
    char* text = nullptr;
    size_t size = 0;
    std::FILE* out = ::open_memstream(&text, &size);
    cli::ProgressLines lines(out, batch.jobs[0].state == JobState::kRunning, false, Seconds::max());
    lines.changed(batch, 0);
    std::fclose(out);
    const std::string copy(text, size);
    std::free(text);
    return copy;
  };
  EXPECT_THAT(printed(), HasSubstr("row_sum: 135.0 µs, 1.00× the default"));
  EXPECT_THAT(text_report(batch), HasSubstr("135.0 µs  135.0 µs     1.00×"));
  // While it runs the fastest is shown, and what is not certain is not said.
  batch.jobs[0].state = JobState::kRunning;
  EXPECT_THAT(printed(), HasSubstr("4 measured, 100.0 µs"));
  EXPECT_THAT(printed(), Not(HasSubstr("the default")));
  batch.jobs[0].result->candidates[0].record.high_us = 110;
  EXPECT_THAT(printed(), HasSubstr("100.0 µs, so far 1.35× the default"));
}

TEST(Summary, HasNoTimeOfZero) {
  BatchResult batch = uncertain_batch();
  batch.jobs[0].result->best_us = batch.jobs[0].result->default_us = 0;
  const nlohmann::json job = summary_json(batch)["jobs"][0];
  EXPECT_TRUE(job["best_us"].is_null() && job["default_us"].is_null() && job["speedup"].is_null()) << job;
}

TEST(HtmlReport, HoldsNamesOnlyWhereTheyCannotBeMarkup) {
  const std::string html = html_report(some_batch());
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, Not(HasSubstr("<script>document.title")));
  EXPECT_THAT(html, HasSubstr("\\u003cimg src=x"));
  EXPECT_THAT(html, Not(HasSubstr("http://www.w3.org/1999/xlink")));
  // The one address in it is SVG's name, which nothing fetches.
  for (size_t at = html.find("://"); at != std::string::npos; at = html.find("://", at + 1)) {
    EXPECT_EQ(html.substr(at, 21), "://www.w3.org/2000/sv");
  }
}

std::string find_chromium() {
  for (const char* path : {"/usr/bin/chromium-headless-shell", "/usr/bin/chromium"}) {
    if (::access(path, X_OK) == 0) return path;
  }
  return "";
}

// What a shell command printed; its errors go to a file.
std::string output_of(const std::string& command, const std::string& errors) {
  std::string out;
  std::FILE* pipe = ::popen((command + " 2>" + errors).c_str(), "re");
  std::array<char, 65536> buffer;
  for (size_t count; pipe && (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    out.append(buffer.data(), count);
  }
  const int status = pipe ? ::pclose(pipe) : -1;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << command << "\n" << read_text(errors);
  return out;
}

size_t occurrences(const std::string& text, const std::string& of) {
  size_t count = 0;
  for (size_t at = text.find(of); at != std::string::npos; at = text.find(of, at + 1)) ++count;
  return count;
}

TEST(HtmlReport, IsDrawnByABrowserThatReachesNothing) {
  const std::string chromium = find_chromium();
  if (chromium.empty()) GTEST_SKIP() << "there is no Chromium (Debian: chromium-headless-shell)";
  ScratchDirectory directory;
  write_text(directory.file("report.html"), html_report(some_batch()));
  const std::string log = directory.file("net.json");
  const std::string dom = output_of(
      chromium + " --no-sandbox --disable-gpu --user-data-dir=" + directory.file("profile") + " --log-net-log=" + log +
          " --enable-logging=stderr --virtual-time-budget=2000 --dump-dom file://" + directory.file("report.html"),
      directory.file("errors"));
  EXPECT_EQ(occurrences(dom, "<table id=\"summary\""), 1u);
  EXPECT_EQ(occurrences(dom, "<table class=\"ranked\""), 2u);
  EXPECT_EQ(occurrences(dom, "<svg class=\"scatter\""), 1u);
  EXPECT_EQ(occurrences(dom, "<svg class=\"convergence\""), 1u);
  EXPECT_EQ(occurrences(dom, "<svg class=\"heat\""), 1u);
  EXPECT_EQ(occurrences(dom, "class=\"cell\""), 16u);
  EXPECT_EQ(occurrences(dom, "<circle class=\"dot"), 16u + 8u);
  EXPECT_EQ(occurrences(dom, "<option"), 2u * 3u);
  EXPECT_THAT(dom, HasSubstr("BM=128 BN=64 num_warps=8"));
  EXPECT_THAT(dom, HasSubstr("no CUDA driver"));
  // Names are text.
  EXPECT_THAT(dom, HasSubstr("&lt;img src=x onerror=alert(1)&gt;"));
  EXPECT_EQ(occurrences(dom, "<img"), 0u);
  EXPECT_THAT(dom, HasSubstr("<title>Kiln tuning report</title>"));
  // No message of a script, and no address asked for but the file's.
  const std::string errors = read_text(directory.file("errors"));
  EXPECT_THAT(errors, Not(HasSubstr("CONSOLE"))) << errors;
  const std::string requests = read_text(log);
  ASSERT_FALSE(requests.empty());
  for (size_t at = requests.find("\"url\":\""); at != std::string::npos; at = requests.find("\"url\":\"", at + 1)) {
    EXPECT_EQ(requests.substr(at + 7, 7), "file://") << requests.substr(at, 120);
  }
}

// The check sees what it looks for.
TEST(HtmlReport, AMistakeOfItsScriptWouldBeSeen) {
  const std::string chromium = find_chromium();
  if (chromium.empty()) GTEST_SKIP() << "there is no Chromium (Debian: chromium-headless-shell)";
  ScratchDirectory directory;
  write_text(directory.file("broken.html"), "<script>nothing.here()</script>");
  output_of(chromium + " --no-sandbox --disable-gpu --user-data-dir=" + directory.file("profile") +
                " --enable-logging=stderr --virtual-time-budget=1000 --dump-dom file://" +
                directory.file("broken.html"),
            directory.file("errors"));
  EXPECT_THAT(read_text(directory.file("errors")), HasSubstr("CONSOLE"));
}

TEST(TextFiles, NobodyWaitsAtAFifoOfAnothers) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, for a file of another user's";
  const std::string path = ::testing::TempDir() + "kiln-fifo-" + std::to_string(::getpid());
  ASSERT_EQ(::mkfifo(path.c_str(), 0666), 0);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const auto text = read_text_file(path);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, path + ": a fifo of another user's");
  const auto written = write_text_file(path, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().message, path + ": a fifo of another user's");
  ::unlink(path.c_str());
}

}  // namespace
}  // namespace kiln::autotune
