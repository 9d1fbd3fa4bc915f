"""Which of these tests are for `make test-long`, which must run alone, and how often some repeat.

For `make test-long`: runs of the real model like others, kills, simulations, and most of what the studies,
bench, sandbox and git do. Alone: what measures time. Whole files say so themselves. Whatever asks for the
real model is marked too: two decodes never run at once, while tests that need no model run beside one.
`make test-thorough` runs the same long tests, and those that ask `repetitions` repeat themselves more often.
"""

from __future__ import annotations

import functools
import itertools
import os
import re
from pathlib import Path
from typing import Final

import pytest

# Set by `make test-thorough`, and read nowhere else.
THOROUGH: Final = os.environ.get("LSP_CALIB_THOROUGH") == "1"


def repetitions(thorough: int, long: int) -> int:
    """How often a long test repeats itself, or how much it draws: less in `make test-long`."""
    return thorough if THOROUGH else long


LONG = {
    "test_llama.py": {
        "test_the_same_seed_draws_the_same_tokens_and_another_other_ones",
        "test_given_tokens_count_towards_the_most",
        # One run that is interrupted stays.
        "test_a_run_that_is_interrupted_at_many_moments_ends_the_same[sampled]",
        "test_a_run_that_is_interrupted_at_many_moments_ends_the_same[background]",
        "test_what_was_evaluated_before_an_interruption_is_kept",
        "test_an_interruption_does_not_wait_for_the_end_of_the_step",
        "test_without_reuse_an_interrupted_answer_is_the_same_to_the_last_bit",
        "test_of_a_prompt_longer_than_the_context_the_end_is_evaluated",
        "test_scores_of_any_length_are_those_of_an_evaluation_from_scratch[130]",
        "test_scores_of_any_length_are_those_of_an_evaluation_from_scratch[64]",
        "test_documents_and_background_work_do_not_disturb_each_other",
        "test_what_is_evaluated_ahead_takes_nothing_from_who_types",
    },
    # The editor is told the same each time; the demo shows the sentence that `complete` and the server give.
    "test_faulty_library.py": {
        "test_where_every_decode_crashes_the_demo_ends_with_the_sentence",
    },
    # The whole demo, half a minute: its steps one by one are test_path.py's.
    "test_demo.py": {"test_without_a_model[False]", "TestReport"},
    "test_calibration_refit.py": {
        "test_the_spread_of_the_prior_is_a_fair_trade",
        "test_who_differs_is_found_and_who_does_not_is_left_alone",
    },
    # Whole competitions over thousands of records; that the records make what ships is tested each time for
    # the default model.
    "test_shipped.py": {
        "test_the_documentation_says_what_records_and_calibrators_say",
        "test_what_ships_is_the_last_row_of_the_ablation",
        "test_the_figures_show_todays_calibrators[ablation]",
        "test_the_records_make_it[line-qwen2.5-coder-1.5b]",
        "test_the_records_make_it[line-qwen2.5-coder-1.5b-large]",
        "test_the_records_make_it[line-smollm2-135m-large]",
        "test_it_is_better_than_every_plain_measure",
        "test_they_are_calibrated_at_every_place",
        "test_the_command_makes_it_byte_for_byte_where_no_model_is_installed",
    },
    "test_runner_scores.py": {
        "test_without_an_encoder_and_held_out_projects_it_is_what_the_calibrator_says",
        "test_the_main_row_is_what_the_calibrator_says_of_itself",
        "test_a_headline_is_what_it_is_among_all_rows",
        "test_a_file_and_a_place_in_force_are_two_things",
        "test_a_calibrator_that_predicts_better_is_put_in_force",
        "test_labels_of_held_out_projects_do_not_touch_the_others",
        "test_one_that_predicts_worse_is_not_unless_it_is_installed",
        "test_lines_that_the_present_one_was_fitted_on_prove_nothing",
        "TestHeldOutInRecords",
    },
    "test_eval_summary.py": {
        "test_the_items_of_the_data",
        "test_examples_are_of_other_repositories_and_not_the_function_itself",
        "test_the_prompt_is_the_editors_and_the_documentation_is_hidden",
        "test_a_run_from_data_to_tables",
    },
    "test_studies.py": {"TestWithTheRealModel"},
    "test_study_tasks.py": {"test_problems_whose_reference_fails_are_left_out_and_counted"},
    "test_covering_tests.py": {
        "test_the_reference_itself_is_run_so_that_exact_alone_can_be_counted",
        "test_a_line_is_right_if_the_tests_that_reach_it_pass",
        "test_too_few_lines_that_tests_reach",
        "test_lines_that_no_test_reaches_are_counted_and_left_out",
        "test_the_reference_is_run_three_times_and_what_depends_on_the_order_is_flaky",
        "test_changed_source_is_traced_again",
        "test_a_project_whose_tests_all_fail",
        "TestWithTheRealModel",
    },
    "test_calibration_cross_validation.py": {
        "test_choosing_among_many_on_noise_is_optimistic_and_the_estimate_is_not"
    },
    "test_report.py": {
        "test_the_interval_of_the_skill_score_holds_it_as_often_as_it_says",
        "test_the_memory_does_not_grow_with_the_store",
    },
    "test_shared_process.py": {"test_killed_at_any_moment_each_request_is_answered_or_fails_at_once"},
    "test_runner.py": {
        "test_a_process_that_is_killed_loses_nothing",
        "test_ctrl_c_in_a_terminal_ends_worker_processes_too_and_quietly",
        "test_a_journal_cut_anywhere_is_taken_up_to_the_same_file",
        "test_killed_at_twenty_moments_nothing_is_lost_or_done_twice",
    },
    # Of the studies, bench, sandbox and git; and simulations and fits of which another one is made each time.
    "test_ablation.py": {
        "test_labels_of_a_project_do_not_touch_its_own_predictions",
        "test_a_row_of_one_measure_is_platt_scaling_of_it_out_of_fold",
        "test_held_out_projects_are_left_out_and_counted",
        "test_files_are_not_called_projects",
    },
    "test_block.py": {"test_the_documented_tables_are_those_of_the_record"},
    "test_calibrate_proof.py": {
        "TestMadeFrom",
        "test_answers_of_one_kind_are_installed_only_when_asked[False-wrong]",
    },
    "test_calibration_fitting.py": {"test_with_few_labels_it_is_better_than_one_of_their_own"},
    "test_calibration_reliability.py": {"test_calibrated_scores_stay_within_all_limits_as_often_as_promised"},
    "test_carrying_over.py": {"test_a_refit_expects_the_user_where_they_were"},
    "test_core_dumps.py": {"test_that_of_the_workers_of_an_evaluation_too"},
    "test_crashing_process.py": {"test_the_systems_kill_demotes_nothing_and_is_an_error_as_well"},
    "test_context.py": {"test_of_the_source_of_this_package_next_to_nothing"},
    "test_data.py": {"TestPinnedProjects"},
    "test_figures.py": {
        "test_a_file_that_cannot_be_written_is_an_error_of_ours",
    },
    "test_git_history.py": {"test_a_personal_calibrator_comes_of_it"},
    "test_languages.py": {"test_hostile_source_neither_crashes_nor_hangs"},
    "test_paper.py": {"TestReport"},
    "test_parsing.py": {"test_parsing_again_and_again_takes_no_memory"},
    "test_personalisation.py": {"test_where_there_is_none_nothing_is_gained_and_next_to_nothing_lost"},
    "test_poisoned_labels.py": {"test_a_few_poisoned_sets"},
    "test_pooled_curves.py": {
        "test_languages_never_seen_are_calibrated",
        "test_the_records_make_it",
        "test_what_is_accepted_in_languages_never_seen_is_right",
    },
    "test_sampling.py": {"test_draws_have_the_distribution_of_the_softmax"},
    "test_sandbox.py": {"TestHowItsEndIsTold"},
    "test_shipped_languages.py": {
        "test_the_records_make_it[line-smollm2-135m-java-large]",
        "test_the_records_make_it[line-qwen2.5-coder-1.5b-java-large]",
        "test_the_records_make_it[line-qwen2.5-coder-1.5b-typescript-large]",
    },
    "test_shipped_summaries.py": {"test_the_records_make_it[summary-qwen2.5-coder-1.5b]"},
    "test_summary_encoder.py": {
        "test_the_editor_weighs_it_where_it_is_installed[False-features-1-without-encoder]"
    },
    "test_text_features.py": {"test_regions_of_a_large_file_change_no_verdict_about_its_lines"},
    "test_vocabulary.py": {"test_the_default_models_tokens_are_the_same_with_and_without"},
    "test_tests_pass.py": {
        "test_pass_and_others_do_not[infilling]",
        "test_pass_and_others_do_not[mbpp]",
    },
    "test_functions.py": {
        "test_hostile_source_neither_crashes_nor_hangs[ifs]",
        "test_hostile_source_neither_crashes_nor_hangs[lambdas]",
        "test_hostile_source_neither_crashes_nor_hangs[headless]",
        "test_hostile_source_neither_crashes_nor_hangs[calls]",
        "test_hostile_source_neither_crashes_nor_hangs[binary]",
    },
    "test_runner_tasks.py": {"test_new_lines_are_further_ones_half_of_them_with_nothing_below"},
    "test_cli.py": {"test_a_command_without_a_server_imports_nothing_of_one[eval line --records]"},
}

ALONE = {
    "test_calibration_metrics.py": {"test_intervals_are_reproducible_and_fast"},
    "test_path.py": {
        "test_cancelling_frees_the_model",
        "test_initialize_is_little_more_than_importing_the_protocol",
    },
    "test_context.py": {"test_a_line_of_200_000_characters_costs_no_time"},
    "test_feedback_tracker.py": {
        "test_a_file_full_of_repeated_lines_takes_milliseconds",
        "test_a_local_change_in_a_huge_document_takes_milliseconds",
    },
    # Not for the time: a worker's folder is too deep for a socket, which then lies elsewhere.
    "test_shared_process.py": {"test_another_user_is_not_served"},
    "test_server_completion.py": {"test_the_menu_does_not_wait_for_a_slow_model"},
    "test_healing.py": {"test_an_endless_line_costs_no_time_and_little_is_forced"},
}


# Where fixtures of a folder's conftest.py ask for the model, its files need not name it.
_NAME_THE_MODEL = ("model_path", "home_with_model", "mark.model")
_ASK_FOR_IT_IN_CONFTEST = ("e2e", "editors")


@functools.cache
def may_have(path: Path, marker: str) -> bool:
    """Whether a file of tests may have some with the marker; told without importing it."""
    text = path.read_text("utf-8")
    match marker:
        case "model":
            folder = path.relative_to(Path(__file__).parent).parts[0]
            return folder in _ASK_FOR_IT_IN_CONFTEST or any(name in text for name in _NAME_THE_MODEL)
        case "alone":
            return path.stem.endswith("_speed") or path.name in ALONE or "mark.alone" in text
        case "long":
            return path.name in LONG or "mark.long" in text
        case "hypothesis":
            return "hypothesis" in text
        case _:
            return True


def has_any(path: Path, expression: str) -> bool:
    """Whether a file may have tests that pytest's `-m EXPRESSION` chooses.

    Importing all files takes longer than some of the suites: a run of a few of them imports no others.
    """
    names = sorted(set(re.findall(r"[a-z_]\w*", expression)) - {"and", "or", "not"})
    if not names:
        return True
    chosen = compile(expression.strip(), "-m", "eval")
    values = [(False, True) if may_have(path, name) else (False,) for name in names]
    return any(eval(chosen, {}, dict(zip(names, one, strict=True))) for one in itertools.product(*values))


def mark(item: pytest.Item) -> None:
    name = item.path.name
    group = item.parent.name if item.parent is not None else ""
    function = item.name.partition("[")[0]
    if {item.name, function, group} & LONG.get(name, set()):
        item.add_marker("long")
    if item.path.stem.endswith("_speed") or function in ALONE.get(name, ()):
        item.add_marker("alone")
    if "model_path" in getattr(item, "fixturenames", ()):
        item.add_marker("model")
    for marker in ("model", "alone", "long"):
        if item.get_closest_marker(marker) and not may_have(item.path, marker):
            raise pytest.UsageError(f"{item.nodeid} is marked {marker!r}, which `may_have` does not see.")
