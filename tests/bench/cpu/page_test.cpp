// The lines of benchmarks, what is compared, and the page made of a canned run.
#include "page.h"

#include <gtest/gtest.h>

#include <vector>

namespace kiln::bench {
namespace {

Report canned() {
  Report report;
  for (const char* line : {
           "# machine: A <processor>, 2 threads",
           "# OpenBLAS core: SkylakeX",
           "rows,softmax 8×16,f32,kiln,us hot 1t,10",
           "rows,softmax 8×16,f32,onednn,us hot 1t,20",
           "rows,softmax 8×16,f32,eager,us hot 1t,13",
           "rows,softmax 8×16,f32,ceiling,us hot 1t,4",
           "rows,argmax 8×16,f32,kiln,us 1t,7",
           "rows,argmax 8×16,f32,ceiling,us 1t,3.5",
           "chains,bias_gelu 4×4,f32,kiln,us 1t,10",
           "chains,bias_gelu 4×4,f32,onednn,us 1t,18",
           "chains,bias_gelu 4×4,f32,onednn fused,us 1t,12",
           "chains,bias_gelu 4×4,f32,inductor,us 1t,9",
           "gemm,cube/64x64x64,f32,kiln,GFLOP/s,90",
           "gemm,cube/64x64x64,f32,kiln,first get ms,3",
           "gemm,cube/64x64x64,f32,openblas,GFLOP/s,100",
           "math,exp,f32,kiln,ns/element,0.2",
           "math,exp,f32,kiln fast,ns/element,0.1",
           "math,exp,f32,sleef 1.0,ns/element,0.5",
           "math,exp,f32,sleef 1.0,ulp,0.9",
           "not,a,line",
           "a,b,c,d,e,f",
       }) {
    add_line(report, line);
  }
  return report;
}

TEST(BenchLines, ReadsWhatItPrints) {
  const Report report = canned();
  ASSERT_EQ(report.measurements.size(), 17u);
  EXPECT_EQ(report.machine, std::vector<std::string>{"A <processor>, 2 threads"});
  EXPECT_EQ(line_of(report.measurements[0]), "rows,softmax 8×16,f32,kiln,us hot 1t,10");
}

TEST(BenchLines, ComparesWithTheFastestPeer) {
  const auto rows = compare(canned());
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0].peer, "eager");
  EXPECT_DOUBLE_EQ(rows[0].ratio, 1.3);
  EXPECT_DOUBLE_EQ(rows[0].share, 0.4);
  EXPECT_DOUBLE_EQ(rows[0].bar, 1.4);
  EXPECT_EQ(rows[1].ratio, 0) << "nobody to compare with";
  EXPECT_EQ(rows[1].bar, 0);
}

TEST(BenchLines, WhatMovesLargeArraysHasABarForItsShare) {
  const auto rows = compare(canned());
  EXPECT_FALSE(rows[0].share_bar > 0) << "in cache";
  EXPECT_DOUBLE_EQ(rows[1].share, 0.5);
  EXPECT_DOUBLE_EQ(rows[1].share_bar, 0.9);
  EXPECT_TRUE(rows[1].misses_bar());
}

TEST(BenchLines, ChainsAreComparedWithPeersThatFuseAndThatDoNot) {
  const auto rows = compare(canned());
  EXPECT_EQ(rows[2].peer, "onednn");
  EXPECT_DOUBLE_EQ(rows[2].ratio, 1.8);
  EXPECT_DOUBLE_EQ(rows[2].bar, 1.5);
  EXPECT_EQ(rows[3].area, "chains (fused peers)");
  EXPECT_EQ(rows[3].peer, "inductor");
  EXPECT_DOUBLE_EQ(rows[3].ratio, 0.9);
}

TEST(BenchLines, OfRatesMoreIsBetter) {
  const auto rows = compare(canned());
  EXPECT_DOUBLE_EQ(rows[4].ratio, 0.9);
  EXPECT_DOUBLE_EQ(rows[5].ratio, 2.5) << "a faster function of ours that is less exact is no peer";
}

TEST(BenchLines, Bf16IsAskedForMoreWhereNobodyHasTiles) {
  Report report;
  for (const char* line :
       {"gemm,cube/256x256x256,bf16,kiln,GFLOP/s,100", "gemm,cube/256x256x256,bf16,onednn,GFLOP/s,60"}) {
    add_line(report, line);
  }
  EXPECT_DOUBLE_EQ(compare(report)[0].bar, 1.8);
  report.machine.push_back("vector instructions: avx2 amx_tile");
  EXPECT_DOUBLE_EQ(compare(report)[0].bar, 1);
}

TEST(BenchLines, TheTableEndsWithWhatMissesItsBar) {
  const std::string table = table_of(compare(canned()));
  const size_t below = table.find("# below their bar:\n");
  ASSERT_NE(below, std::string::npos);
  EXPECT_NE(table.find("softmax", below), std::string::npos);
  EXPECT_NE(table.find("cube/64x64x64", below), std::string::npos);
  EXPECT_EQ(table.find("exp", below), std::string::npos);
}

TEST(BenchLines, ScalingIsThatOfTheBestPeerOnManyThreads) {
  Report report;
  for (const char* line : {"rows,softmax 8×16,f32,kiln,us 1t,100", "rows,softmax 8×16,f32,kiln,us 4t,40",
                           "rows,softmax 8×16,f32,onednn,us 1t,120", "rows,softmax 8×16,f32,onednn,us 4t,40",
                           "rows,softmax 8×16,f32,eager,us 1t,400", "rows,softmax 8×16,f32,eager,us 4t,100",
                           "rows,softmax 8×16,f32,ceiling,us 4t,1", "rows,argmax 8×16,f32,kiln,us 4t,7"}) {
    add_line(report, line);
  }
  const auto rows = scaling_of(report);
  ASSERT_EQ(rows.size(), 1u) << "no scaling without one thread and a peer";
  EXPECT_EQ(rows[0].metric, "us 4t");
  EXPECT_EQ(rows[0].peer, "onednn");
  EXPECT_DOUBLE_EQ(rows[0].ours, 2.5);
  EXPECT_DOUBLE_EQ(rows[0].theirs, 3);
  EXPECT_TRUE(rows[0].misses_bar());
  EXPECT_NE(table_of(rows).find("more than a tenth below"), std::string::npos);
}

// Every element that is opened is closed, in order.
void expect_well_formed(const std::string& page) {
  std::vector<std::string> open;
  for (size_t at = page.find('<', page.find("<html")); at != std::string::npos; at = page.find('<', at + 1)) {
    const size_t end = page.find('>', at);
    ASSERT_NE(end, std::string::npos) << "at " << at;
    const std::string tag = page.substr(at + 1, end - at - 1);
    ASSERT_FALSE(tag.empty()) << "at " << at;
    if (tag[0] == '/') {
      ASSERT_FALSE(open.empty()) << tag;
      EXPECT_EQ(open.back(), tag.substr(1)) << "at " << at;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  EXPECT_TRUE(open.empty());
}

TEST(BenchPage, IsWellFormedAndLoadsNothing) {
  const std::string page = page_of(canned());
  expect_well_formed(page);
  EXPECT_NE(page.find("A &lt;processor&gt;, 2 threads"), std::string::npos);
  for (const char* outside : {"http", "<script", "<link", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(outside), std::string::npos) << outside;
  }
}

TEST(BenchPage, HasABarForEachRatioAndEachShare) {
  const std::string page = page_of(canned());
  size_t bars = 0;
  for (size_t at = page.find("<rect"); at != std::string::npos; at = page.find("<rect", at + 1)) ++bars;
  EXPECT_EQ(bars, 5u + 2u);
  EXPECT_NE(page.find("1.30 of eager"), std::string::npos);
  EXPECT_NE(page.find("40 %"), std::string::npos);
  EXPECT_NE(page.find("class=\"missed\""), std::string::npos);
}

TEST(BenchPage, OfAnEmptyRunIsAPage) { expect_well_formed(page_of({})); }

}  // namespace
}  // namespace kiln::bench
