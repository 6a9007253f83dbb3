"""Handlers of the API's verbs, one file for each: functions that turn a RoutedRequest into a Response."""
