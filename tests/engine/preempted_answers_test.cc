// An answer whose request is preempted on the way has the bits of one that nobody disturbed.

#include "engine/preempted_answers.h"

#include <gtest/gtest.h>

namespace yeoul {
namespace {

TEST(PreemptedAnswers, at_any_step_have_the_bits_of_the_undisturbed_run) {
  const PreemptedAnswers report =
      preempt_every_answer("models/tiny-random", "tests/golden/data/tiny_engram.json", 4);
  EXPECT_TRUE(report.violations.empty())
      << report.violations.size() << " of " << report.runs << ": " << report.violations[0];
  EXPECT_GT(report.preemptions, report.runs / 2);
  EXPECT_GT(report.resumed, 0);
}

}  // namespace
}  // namespace yeoul
