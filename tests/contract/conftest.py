"""Which tests of the contracts take long on which backend: those are left to `make test-all` there."""

import pytest

# etcd counts leases in seconds, so what waits for one takes as many; and each of its transactions is heavy.
LONG_ON_ETCD = frozenset(
    {
        *("test_a_renewed_lease_outlives_its_first_ttl", "test_a_renewal_does_not_prolong_the_lease_of_a_successor"),
        *("test_a_late_resign_does_not_end_a_newer_lease", "test_a_resignation_wakes_every_standby"),
        *("test_waiting_for_a_vacancy_ends_while_the_leader_stays", "test_a_late_resign_wakes_nobody"),
        *("test_nobody_is_seen_to_lead_with_an_expired_lease", "test_an_expired_lease_cannot_be_renewed"),
        *("test_a_heartbeat_prolongs_the_lease", "test_a_worker_that_was_gone_can_register_again"),
        *("test_the_heartbeat_of_a_worker_that_is_gone_is_not_shown", "test_hundreds_of_workers_are_listed"),
        *("test_a_heartbeat_that_comes_too_late_is_refused", "test_a_repeated_cancel_request_is_remembered_anew"),
        *("test_a_slow_listener_holds_up_nobody_and_loses_the_oldest", "test_one_assignment_wakes_each_of_its_workers"),
        *(
            "test_two_nodes_that_take_at_once_share_without_overlap_or_loss",
            "test_a_rebuild_of_many_pages_brings_them_all",
        ),
        *(
            "test_a_take_that_waits_in_vain_brings_what_is_there",
            "test_a_wait_that_was_cancelled_takes_no_later_wake_with_it",
        ),
        *("test_nothing_is_missed_or_repeated_while_others_publish", "test_a_large_batch_is_moved_whole"),
        *(
            "test_who_comes_back_gets_what_was_published_since_and_then_what_comes",
            "test_many_tasks_are_cancelled_at_once",
        ),
        *("test_discarding_many_unknown_or_none_is_fine", "test_a_large_batch_is_forgotten_before_it_was_taken"),
        *("test_each_of_many_tasks_is_granted_exactly_once", "test_each_task_is_either_finished_or_cancelled"),
        *("test_a_purge_without_bounds_goes_in_pieces_and_leaves_nothing_behind",),
        *("test_a_large_batch_of_keys_may_be_repeated_with_new_ids",),
        *("test_a_large_batch_of_unlike_steps_is_written", "test_many_configs_fire_at_once_each_with_its_own_tasks"),
        *("test_pages_cover_all_without_gap_or_repeat", "test_a_large_batch_is_added_and_answered_in_order"),
        *("test_terms_begun_at_once_are_all_different", "test_a_large_batch_arrives_whole_and_in_order"),
        *("test_many_tasks_are_loaded_at_once", "test_two_that_purge_at_once_delete_each_task_once"),
        *("test_a_batch_may_be_larger_than_a_database_packet", "test_nodes_that_ask_at_once_have_different_slots"),
        *("test_a_large_batch_comes_out_whole_and_in_order", "test_of_many_that_take_over_at_once_one_gets_the_slot"),
        *("test_the_record_is_read_in_pieces", "test_pages_have_no_gap_and_no_repeat_while_tasks_arrive"),
        *("test_waiting_for_work_ends_without_any", "test_a_cancel_request_is_forgotten_after_its_ttl"),
        *("test_an_assignment_to_another_worker_wakes_nobody", "test_a_take_from_an_empty_queue_ends_with_its_wait"),
        *("test_a_step_that_both_send_is_applied_for_one_and_repeated_for_the_other", "test_a_filter_is_paged_too"),
        *("test_a_take_waits_when_all_was_acknowledged_before_it", "test_many_workers_are_seen_at_once"),
        *("test_a_take_waits_again_after_it_has_emptied_the_queue", "test_a_wildcard_finds_only_itself"),
        *("test_a_take_that_waits_is_woken_for_other_reasons_too", "test_awkward_text_is_found_literally"),
        *("test_a_take_that_was_cancelled_leaves_what_comes_later", "test_awkward_metadata_is_found_literally"),
        # Each lets a task live every life. Two such tests stay, which look at the tasks and at their records too.
        *("test_every_step_leaves_the_task_as_the_domain_says", "test_every_step_is_in_the_record"),
        *("test_two_steps_of_one_task_in_a_batch_are_refused_before_any_write", "test_a_final_state_is_final"),
    }
)


# The store says the same to a Redis of several servers as to one. (The coordinator waits and listens there.)
SHORT_ON_SEVERAL = frozenset(
    {
        *("test_a_task_comes_back_whole", "test_every_step_leaves_the_task_as_the_domain_says"),
        *("test_each_of_many_tasks_is_granted_exactly_once", "test_a_config_comes_back_whole"),
        *("test_a_purge_without_bounds_goes_in_pieces_and_leaves_nothing_behind",),
        *("test_many_configs_fire_at_once_each_with_its_own_tasks",),
    }
)


@pytest.hookimpl(tryfirst=True)  # before the slow ones are left out
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and "[etcd" in item.name and item.originalname in LONG_ON_ETCD:
            item.add_marker(pytest.mark.slow)
        if isinstance(item, pytest.Function) and _is_long_on_several(item):
            item.add_marker(pytest.mark.slow)


def _is_long_on_several(item: pytest.Function) -> bool:
    is_store_of_several = item.path.name == "test_store.py" and "[redis-" in item.name
    return is_store_of_several and item.originalname not in SHORT_ON_SEVERAL
