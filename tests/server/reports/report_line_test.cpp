// Who waits for reports, and whose turn it is.
#include "reports/report_line.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>

#include "reports/reports.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using server::ReportLine;
using server::WantedReport;

TEST(ReportLine, ProcessesTakeTurns) {
  ReportLine line;
  for (size_t last = 1; last <= 500; ++last) line.push({.owner = 7, .wanted = {WantedReport::kTrace, last}});
  EXPECT_EQ(line.take().at(0).owner, 7u);
  line.push({.owner = 3, .wanted = {WantedReport::kJson}});
  line.push({.owner = 9, .wanted = {WantedReport::kPrometheus}});
  std::vector<uint64_t> owners;
  for (int i = 0; i < 4; ++i) owners.push_back(line.take().at(0).owner);
  EXPECT_EQ(owners, (std::vector<uint64_t>{9, 3, 7, 7}));
}

TEST(ReportLine, OfAProcessTheOldestIsNext) {
  ReportLine line;
  for (size_t last : {5u, 2u, 8u}) line.push({.owner = 7, .wanted = {WantedReport::kTrace, last}});
  std::vector<size_t> lasts;
  while (!line.empty()) lasts.push_back(line.take().at(0).wanted.last);
  EXPECT_EQ(lasts, (std::vector<size_t>{5, 2, 8}));
  EXPECT_TRUE(line.take().empty());
}

TEST(ReportLine, WhoWantsTheSameGetsIt) {
  ReportLine line;
  for (uint64_t owner : {1u, 2u, 1u, 3u}) line.push({.owner = owner, .wanted = {WantedReport::kJson}});
  line.push({.owner = 2, .wanted = {WantedReport::kTrace, 1}});
  EXPECT_EQ(line.take().size(), 4u);
  EXPECT_EQ(line.take().size(), 1u);
  EXPECT_TRUE(line.empty());
}

TEST(Reports, AProcessHasEightAtOnceAndAnotherIsAnsweredBetweenThem) {
  boost::asio::io_context io;
  const server::History history;
  server::Reports reports(io, [] { return nlohmann::json::object(); }, history);
  std::string answered;
  size_t asked = 0;
  while (reports.has_room(1)) {
    reports.ask(1, {WantedReport::kTrace, ++asked}, [&](const server::SharedBytes&) { answered += 'a'; });
  }
  EXPECT_EQ(asked, 8u);
  ASSERT_TRUE(reports.has_room(2));
  reports.ask(2, {WantedReport::kJson}, [&](const server::SharedBytes& text) {
    EXPECT_TRUE(text);
    answered += 'b';
  });
  const auto work = boost::asio::make_work_guard(io);  // that is on the thread
  while (answered.size() < 9) io.run_one();
  EXPECT_LE(answered.find('b'), 1u) << answered;
  EXPECT_TRUE(reports.has_room(1));
}

}  // namespace
}  // namespace kiln::service_test
